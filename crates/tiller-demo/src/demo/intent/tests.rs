//! Requests, and the tasks that the demo recognises.

mod new_users;

use expect_test::{Expect, expect};

use super::{Known, quote_path, read};
use crate::script::testing::tool;

/// The recognised tasks, one line each.
fn check(questions: &str, expected: Expect) {
    let tools: Vec<_> = ["read", "bash", "edit", "write", "weather"].map(tool).into();
    let mut out = String::new();
    for question in questions.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let question = question.replace("\\n", "\n");
        let known = Known { tools: &tools, last_path: Some("last.txt".into()) };
        out.push_str(&format!("{question}\n"));
        for task in read(&question, known) {
            let task: String = format!("{task:?}").chars().take(100).collect();
            out.push_str(&format!("    {task}\n"));
        }
    }
    expected.assert_eq(&out);
}

#[test]
fn folders() {
    check(
        "
        What is in this folder?
        what's in here?
        What files are here?
        List the files
        ls
        ls src
        ls -la
        Show me the files in src
        list all files in the docs directory
        What is in src/?
        Can you list the contents of the current directory, please?
        show me the src folder
        which files are in this directory?
        look around
        What do you see?
        how many files are there in src
        list folder src
        tell me what is in src
        ",
        expect![[r#"
            What is in this folder?
                List { path: "." }
            what's in here?
                List { path: "." }
            What files are here?
                List { path: "." }
            List the files
                List { path: "." }
            ls
                List { path: "." }
            ls src
                List { path: "src" }
            ls -la
                Run { command: "ls -la" }
            Show me the files in src
                List { path: "src" }
            list all files in the docs directory
                List { path: "docs" }
            What is in src/?
                List { path: "src/" }
            Can you list the contents of the current directory, please?
                List { path: "." }
            show me the src folder
                List { path: "src" }
            which files are in this directory?
                List { path: "." }
            look around
                List { path: "." }
            What do you see?
                List { path: "." }
            how many files are there in src
                List { path: "src" }
            list folder src
                List { path: "src" }
            tell me what is in src
                List { path: "src" }
        "#]],
    );
}

#[test]
fn files() {
    check(
        "
        Read README.md and summarise it
        read README.md
        Summarize src/main.rs
        What does Cargo.toml say?
        show me notes.txt
        cat a.txt
        Read a.txt, b.txt and c.txt
        compare a.txt and b.txt
        please open @src/lib.rs
        read it
        summarise it
        what's in notes.txt?
        Explain what src/main.rs does
        How many lines does notes.txt have?
        read the readme
        What does the README say?
        read notes
        open the file Makefile
        Read README.md and tell me how many lines it has
        what is the first line of a.txt?
        a.txt
        ",
        expect![[r#"
            Read README.md and summarise it
                Read { paths: ["README.md"], want: Summary }
            read README.md
                Read { paths: ["README.md"], want: Summary }
            Summarize src/main.rs
                Read { paths: ["src/main.rs"], want: Summary }
            What does Cargo.toml say?
                Read { paths: ["Cargo.toml"], want: Summary }
            show me notes.txt
                Read { paths: ["notes.txt"], want: Content }
            cat a.txt
                Read { paths: ["a.txt"], want: Content }
            Read a.txt, b.txt and c.txt
                Read { paths: ["a.txt", "b.txt", "c.txt"], want: Summary }
            compare a.txt and b.txt
                Read { paths: ["a.txt", "b.txt"], want: Summary }
            please open @src/lib.rs
                Read { paths: ["src/lib.rs"], want: Content }
            read it
                Read { paths: ["last.txt"], want: Summary }
            summarise it
                Read { paths: ["last.txt"], want: Summary }
            what's in notes.txt?
                Read { paths: ["notes.txt"], want: Summary }
            Explain what src/main.rs does
                Read { paths: ["src/main.rs"], want: Summary }
            How many lines does notes.txt have?
                Read { paths: ["notes.txt"], want: Summary }
            read the readme
                Readme
            What does the README say?
                Readme
            read notes
                Read { paths: ["notes"], want: Summary }
            open the file Makefile
                Read { paths: ["Makefile"], want: Content }
            Read README.md and tell me how many lines it has
                Read { paths: ["README.md"], want: Summary }
            what is the first line of a.txt?
                Read { paths: ["a.txt"], want: Summary }
            a.txt
                Read { paths: ["a.txt"], want: Summary }
        "#]],
    );
}

#[test]
fn commands() {
    check(
        "
        run `git status`
        Run git status.
        Can you run `cargo --version` for me?
        execute ls -la and tell me what you see
        run the command uname -a
        $ echo hi
        `git log`
        what does `uname -s` print?
        git status
        run hello.py
        run the tests
        run the unit tests
        run npm test
        run cat a.txt | wc -l
        what time is it?
        where am I?
        What branch am I on? Which branch is it?
        show me the git log
        run
        pwd
        echo hello world
        ",
        expect![[r#"
            run `git status`
                Run { command: "git status" }
            Run git status.
                Run { command: "git status" }
            Can you run `cargo --version` for me?
                Run { command: "cargo --version" }
            execute ls -la and tell me what you see
                Run { command: "ls -la" }
            run the command uname -a
                Run { command: "uname -a" }
            $ echo hi
                Run { command: "echo hi" }
            `git log`
                Run { command: "git log" }
            what does `uname -s` print?
                Run { command: "uname -s" }
            git status
                Run { command: "git status" }
            run hello.py
                Run { command: "python3 hello.py" }
            run the tests
                RunTests
            run the unit tests
                RunTests
            run npm test
                Run { command: "npm test" }
            run cat a.txt | wc -l
                Run { command: "cat a.txt | wc -l" }
            what time is it?
                Run { command: "date" }
            where am I?
                Run { command: "pwd" }
            What branch am I on? Which branch is it?
                Run { command: "git branch" }
            show me the git log
                Run { command: "git log --oneline -10" }
            run
                Ask("Which command shall I run?")
            pwd
                Run { command: "pwd" }
            echo hello world
                Run { command: "echo hello world" }
        "#]],
    );
}

#[test]
fn writing() {
    check(
        r#"
        create a file hello.txt with the text hi
        Create a file called hello.txt with the text "hi there".
        write hello to notes.txt
        write "Hello, world. How are you?" to notes.txt
        save 'a b' as x/y.txt
        put the end into z.txt
        create an empty file empty.txt
        touch a.md
        make a file named todo.md containing - buy milk
        create notes.txt with the following content:\none. two\n\nthree
        Create a new file test.txt that says it works!
        create a file test.txt with hello in it
        write hello world to hello.txt
        Write a hello world program in Python
        write a hello world program in Rust to main.rs
        write a short poem to poem.txt
        append a line "more" to notes.txt
        append bye to the end of notes.txt
        add the line done to it
        create a folder called stuff
        mkdir a/b
        make a directory src
        create a file
        write a file
        create notes.txt:\n```\none\ntwo\n```
        create hello.txt with the text hi and then read it
        delete notes.txt
        "#,
        expect![[r#"
            create a file hello.txt with the text hi
                Write { path: "hello.txt", content: "hi" }
            Create a file called hello.txt with the text "hi there".
                Write { path: "hello.txt", content: "hi there" }
            write hello to notes.txt
                Write { path: "notes.txt", content: "hello" }
            write "Hello, world. How are you?" to notes.txt
                Write { path: "notes.txt", content: "Hello, world. How are you?" }
            save 'a b' as x/y.txt
                Write { path: "x/y.txt", content: "a b" }
            put the end into z.txt
                Write { path: "z.txt", content: "the end" }
            create an empty file empty.txt
                Write { path: "empty.txt", content: "" }
            touch a.md
                Write { path: "a.md", content: "" }
            make a file named todo.md containing - buy milk
                Write { path: "todo.md", content: "- buy milk" }
            create notes.txt with the following content:
            one. two

            three
                Write { path: "notes.txt", content: "one. two\n\nthree" }
            Create a new file test.txt that says it works!
                Write { path: "test.txt", content: "it works" }
            create a file test.txt with hello in it
                Write { path: "test.txt", content: "hello" }
            write hello world to hello.txt
                Write { path: "hello.txt", content: "hello world" }
            Write a hello world program in Python
                Write { path: "hello.py", content: "print(\"Hello, world!\")\n" }
            write a hello world program in Rust to main.rs
                Write { path: "main.rs", content: "fn main() {\n    println!(\"Hello, world!\");\n}\n" }
            write a short poem to poem.txt
                Write { path: "poem.txt", content: "The lighthouse on the spit had been dark for a year when the par
            append a line "more" to notes.txt
                Append { path: "notes.txt", line: "more" }
            append bye to the end of notes.txt
                Append { path: "notes.txt", line: "bye" }
            add the line done to it
                Append { path: "last.txt", line: "done" }
            create a folder called stuff
                MakeFolder { path: "stuff" }
            mkdir a/b
                MakeFolder { path: "a/b" }
            make a directory src
                MakeFolder { path: "src" }
            create a file
                Ask("What shall the file be called? For example: create notes.txt with the text hello")
            write a file
                Ask("What shall the file be called? For example: create notes.txt with the text hello")
            create notes.txt:
            ```
            one
            two
            ```
                Write { path: "notes.txt", content: "one\ntwo\n" }
            create hello.txt with the text hi and then read it
                Write { path: "hello.txt", content: "hi" }
                Read { paths: ["hello.txt"], want: Summary }
            delete notes.txt
                WillNotDelete { path: "notes.txt" }
        "#]],
    );
}

#[test]
fn editing() {
    check(
        r#"
        replace foo with bar in a.txt
        Replace "foo bar" with "baz" in the file a.txt.
        change color to colour in src/main.rs
        in a.txt, replace a with b
        replace hi with hello in it
        now replace x with y
        rename old_name to new_name in lib.rs
        rename a.txt to b.txt
        replace `a.b` with `c.d` in x.rs
        replace foo in a.txt
        change the title to The End in notes.md
        "#,
        expect![[r#"
            replace foo with bar in a.txt
                Edit { path: "a.txt", old: "foo", new: "bar" }
            Replace "foo bar" with "baz" in the file a.txt.
                Edit { path: "a.txt", old: "foo bar", new: "baz" }
            change color to colour in src/main.rs
                Edit { path: "src/main.rs", old: "color", new: "colour" }
            in a.txt, replace a with b
                Edit { path: "a.txt", old: "a", new: "b" }
            replace hi with hello in it
                Edit { path: "last.txt", old: "hi", new: "hello" }
            now replace x with y
                Edit { path: "last.txt", old: "x", new: "y" }
            rename old_name to new_name in lib.rs
                Edit { path: "lib.rs", old: "old_name", new: "new_name" }
            rename a.txt to b.txt
                Run { command: "mv a.txt b.txt" }
            replace `a.b` with `c.d` in x.rs
                Edit { path: "x.rs", old: "a.b", new: "c.d" }
            replace foo in a.txt
                Ask("With what? For example: replace foo with bar in notes.txt")
            change the title to The End in notes.md
                Edit { path: "notes.md", old: "the title", new: "The End" }
        "#]],
    );
}

#[test]
fn searching() {
    check(
        r#"
        search for TODO
        Search for "fn main" in src
        grep TODO
        find TODO in src
        find all occurrences of foo in the project
        where is parse_args defined?
        which files mention tokio?
        look for the word error in log.txt
        find all Rust files
        find *.md
        find all files named config.toml
        Where is Cargo.toml?
        list all python files
        search
        find files containing hello
        "#,
        expect![[r#"
            search for TODO
                Search { pattern: "TODO", path: "." }
            Search for "fn main" in src
                Search { pattern: "fn main", path: "src" }
            grep TODO
                Search { pattern: "TODO", path: "." }
            find TODO in src
                Search { pattern: "TODO", path: "src" }
            find all occurrences of foo in the project
                Search { pattern: "foo", path: "." }
            where is parse_args defined?
                Search { pattern: "parse_args", path: "." }
            which files mention tokio?
                Search { pattern: "tokio", path: "." }
            look for the word error in log.txt
                Search { pattern: "error", path: "log.txt" }
            find all Rust files
                Find { glob: "*.rs" }
            find *.md
                Find { glob: "*.md" }
            find all files named config.toml
                Find { glob: "config.toml" }
            Where is Cargo.toml?
                Find { glob: "Cargo.toml" }
            list all python files
                Find { glob: "*.py" }
            search
                Ask("What shall I search for? For example: search for TODO in src")
            find files containing hello
                Search { pattern: "hello", path: "." }
        "#]],
    );
}

#[test]
fn other_things() {
    check(
        r#"
        What is this project about?
        what does this project do?
        Tell me about this codebase
        Explain this repo to me
        give me an overview of the project
        what is this?
        What is 2+2?
        12 * (3 + 4)
        count to 20
        tell me a story
        Hi
        Hello! What is in this folder?
        hello there
        thanks!
        bye
        help
        What can you do?
        who are you?
        call weather {"city": "Paris"}
        use the weather tool with {"city": "Rome"}
        use the calendar tool
        call nothing
        list the files, then read README.md
        List the files. Read README.md. Run `git status`.
        Fix the bug in the parser
        Why is the sky blue?
        日本語で答えてください
        e.g. and/or 3.5
        "#,
        expect![[r#"
            What is this project about?
                Project
            what does this project do?
                Project
            Tell me about this codebase
                Project
            Explain this repo to me
                Project
            give me an overview of the project
                Project
            what is this?
                Project
            What is 2+2?
                Sum { sum: "2+2", value: Some(4.0) }
            12 * (3 + 4)
                Sum { sum: "12 * (3 + 4)", value: Some(84.0) }
            count to 20
                Count { to: 20 }
            tell me a story
                Story
            Hi
                Greet
            Hello! What is in this folder?
                List { path: "." }
            hello there
                Greet
            thanks!
                Thanks
            bye
                Bye
            help
                Help
            What can you do?
                Help
            who are you?
                Help
            call weather {"city": "Paris"}
                UseTool { name: "weather", arguments: {"city": String("Paris")} }
            use the weather tool with {"city": "Rome"}
                UseTool { name: "weather", arguments: {"city": String("Rome")} }
            use the calendar tool
                UseTool { name: "calendar", arguments: {} }
            call nothing
            list the files, then read README.md
                List { path: "." }
                Read { paths: ["README.md"], want: Summary }
            List the files. Read README.md. Run `git status`.
                List { path: "." }
                Read { paths: ["README.md"], want: Summary }
                Run { command: "git status" }
            Fix the bug in the parser
            Why is the sky blue?
            日本語で答えてください
            e.g. and/or 3.5
        "#]],
    );
}

#[test]
fn shell_quoting() {
    let check = |word: &str, expected: &str| assert_eq!(quote_path(word), expected);
    check("src/main.rs", "src/main.rs");
    check("a b", "'a b'");
    check("it's", r"'it'\''s'");
    check("$(rm x)", "'$(rm x)'");
    check("", "''");
    check("-rf", "./-rf");
    check("~/a b", "~/'a b'");
}
