//! Requests that new users type.

use super::*;

#[test]
fn requests_of_new_users() {
    check(
        r#"
        Summarise this folder
        Tell me what files are in the current directory
        Show me what's in the src directory
        Give me a summary of README.md
        Can you read package.json and tell me the version?
        Please create a new file named test.py that prints hello
        make a hello.py that prints hello world
        Write 'hello world' in a file named hello.txt
        write a haiku
        create a text file with hello inside
        Could you create a file hello.txt with content hello world?
        Put 'x' in notes.txt and show me the file
        Is there a README?
        Do you see a Cargo.toml?
        What language is this project written in?
        which files are in this project?
        run `ls` in src
        please execute the following command: ls -la
        what is the output of `date`?
        what's the current directory?
        What's today's date?
        Search the code for TODO
        search src for TODO
        grep for foo in bar.txt
        find the word hello
        find the file main.rs
        Read the file at src/main.rs
        Read /etc/hostname
        Explain the code in src/lib.rs
        What tools do you have?
        use bash to list the files
        use the read tool on README.md
        use bash to use bash to use bash
        use bash
        sleep for 5 seconds
        wait
        continue
        I'd like you to create a folder named out and then create out/a.txt with the text "x"
        "#,
        expect![[r#"
            Summarise this folder
                List { path: "." }
            Tell me what files are in the current directory
                List { path: "." }
            Show me what's in the src directory
                List { path: "src" }
            Give me a summary of README.md
                Read { paths: ["README.md"], want: Summary }
            Can you read package.json and tell me the version?
                Read { paths: ["package.json"], want: Summary }
            Please create a new file named test.py that prints hello
                Write { path: "test.py", content: "print(\"hello\")\n" }
            make a hello.py that prints hello world
                Write { path: "hello.py", content: "print(\"hello world\")\n" }
            Write 'hello world' in a file named hello.txt
                Write { path: "hello.txt", content: "hello world" }
            write a haiku
                Story
            create a text file with hello inside
                Ask("What shall the file be called? For example: create notes.txt with the text hello")
            Could you create a file hello.txt with content hello world?
                Write { path: "hello.txt", content: "hello world" }
            Put 'x' in notes.txt and show me the file
                Write { path: "notes.txt", content: "x" }
                Read { paths: ["notes.txt"], want: Content }
            Is there a README?
                Readme
            Do you see a Cargo.toml?
                Find { glob: "Cargo.toml" }
            What language is this project written in?
                Project
            which files are in this project?
                List { path: "." }
            run `ls` in src
                Run { command: "ls" }
            please execute the following command: ls -la
                Run { command: "ls -la" }
            what is the output of `date`?
                Run { command: "date" }
            what's the current directory?
                Run { command: "pwd" }
            What's today's date?
                Run { command: "date" }
            Search the code for TODO
                Search { pattern: "TODO", path: "." }
            search src for TODO
                Search { pattern: "TODO", path: "src" }
            grep for foo in bar.txt
                Search { pattern: "foo", path: "bar.txt" }
            find the word hello
                Search { pattern: "hello", path: "." }
            find the file main.rs
                Find { glob: "main.rs" }
            Read the file at src/main.rs
                Read { paths: ["src/main.rs"], want: Summary }
            Read /etc/hostname
                Read { paths: ["/etc/hostname"], want: Summary }
            Explain the code in src/lib.rs
                Read { paths: ["src/lib.rs"], want: Summary }
            What tools do you have?
                Help
            use bash to list the files
                List { path: "." }
            use the read tool on README.md
                Read { paths: ["README.md"], want: Summary }
            use bash to use bash to use bash
            use bash
                Ask("Which command shall I run?")
            sleep for 5 seconds
                Run { command: "sleep 5" }
            wait
            continue
            I'd like you to create a folder named out and then create out/a.txt with the text "x"
                MakeFolder { path: "out" }
                Write { path: "out/a.txt", content: "x" }
        "#]],
    );
}
