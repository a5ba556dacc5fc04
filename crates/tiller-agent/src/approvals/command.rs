//! Takes a shell command apart, as far as that is certain.
//!
//! Only plain words are understood. Whatever the shell would expand, substitute, redirect or
//! group makes a command [`Opaque`](Shape::Opaque), and so does any character that is not known to
//! be harmless: a mistake here must err on the side of asking.

/// What a command consists of.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// One command, with its words.
    Simple(Vec<String>),
    /// Several of them, joined by `&&`, `||`, `;`, `|`, `&` or line ends.
    List(Vec<Vec<String>>),
    /// What it runs is not certain.
    Opaque,
}

impl Shape {
    pub fn of(command: &str) -> Shape {
        let Some(mut commands) = split(command) else { return Shape::Opaque };
        match commands.len() {
            0 => Shape::Opaque,
            1 => Shape::Simple(commands.remove(0)),
            _ => Shape::List(commands),
        }
    }

    /// The words of each command; empty if they are not known.
    pub(super) fn commands(&self) -> &[Vec<String>] {
        match self {
            Shape::Simple(words) => std::slice::from_ref(words),
            Shape::List(commands) => commands,
            Shape::Opaque => &[],
        }
    }
}

/// Programs that run the command in their arguments, or any program.
const RUNNERS: &[&str] = &[
    ".",
    "ash",
    "awk",
    "bash",
    "builtin",
    "bun",
    "busybox",
    "chroot",
    "command",
    "coproc",
    "csh",
    "dash",
    "deno",
    "doas",
    "env",
    "eval",
    "exec",
    "find",
    "fish",
    "gawk",
    "gdb",
    "ionice",
    "ksh",
    "lua",
    "mawk",
    "nice",
    "node",
    "nohup",
    "nsenter",
    "parallel",
    "perl",
    "php",
    "powershell",
    "pwsh",
    "python",
    "python2",
    "python3",
    "ruby",
    "runuser",
    "script",
    "setsid",
    "sh",
    "source",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "tclsh",
    "time",
    "timeout",
    "tmux",
    "unshare",
    "watch",
    "xargs",
    "zsh",
];

/// Whether this program runs other commands.
pub(super) fn is_runner(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    RUNNERS.contains(&name)
}

/// The words of each command of a list, or nothing if they are not certain.
fn split(command: &str) -> Option<Vec<Vec<String>>> {
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\n' | ';' | '&' | '|' => {
                if matches!(c, '&' | '|') {
                    rest.next_if_eq(&c);
                }
                words.extend(word.take());
                if !words.is_empty() {
                    commands.push(std::mem::take(&mut words));
                }
            }
            '\'' => {
                let text = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        inner => text.push(inner),
                    }
                }
            }
            '"' => {
                let text = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '$' | '`' | '\\' | '!' => return None,
                        inner => text.push(inner),
                    }
                }
            }
            // An assignment changes how a program behaves, `=` in front of a word is a path in zsh.
            '=' if words.is_empty() || word.is_none() => return None,
            '~' if words.is_empty() => return None,
            _ if is_plain(c) => word.get_or_insert_default().push(c),
            _ => return None,
        }
    }
    words.extend(word);
    if !words.is_empty() {
        commands.push(words);
    }
    commands.iter().all(|words| is_program(&words[0])).then_some(commands)
}

/// Whether a character stands for itself outside of quotes.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "-_./:,@%+=~^".contains(c)
}

/// Whether the first word names a program, and is no reserved word of the shell.
fn is_program(word: &str) -> bool {
    const RESERVED: &[&str] = &[
        "case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
        "select", "then", "until", "while",
    ];
    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
    !word.is_empty() && word.chars().all(is_known) && !RESERVED.contains(&word)
}

/// The beginning of a command that the user may allow for the session. It always has more than one
/// word, and is never offered for a program that runs others.
pub(super) fn offered_prefix(words: &[String]) -> Option<Vec<String>> {
    let [program, rest @ ..] = words else { return None };
    if is_runner(program) {
        return None;
    }
    let is_subcommand = |word: &&String| {
        let mut chars = word.chars();
        chars.next().is_some_and(|c| c.is_ascii_lowercase())
            && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_:".contains(c))
    };
    let first = rest.first().filter(is_subcommand)?;
    // What these run is named by the next word.
    let length = match first.as_str() {
        "run" | "exec" | "x" | "dlx" => {
            rest.get(1).filter(is_subcommand)?;
            3
        }
        _ => 2,
    };
    Some(words[..length].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simple(words: &[&str]) -> Shape {
        Shape::Simple(words.iter().map(|word| (*word).to_owned()).collect())
    }

    fn list(commands: &[&[&str]]) -> Shape {
        let words = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Shape::List(commands.iter().map(words).collect())
    }

    #[test]
    fn plain_words_and_quotes_are_a_simple_command() {
        for (command, words) in [
            ("ls", &["ls"][..]),
            ("  ls\t -la  ", &["ls", "-la"]),
            ("npm test", &["npm", "test"]),
            ("npm test\n", &["npm", "test"]),
            (
                "git commit -m 'fix; rm -rf $HOME `x`'",
                &["git", "commit", "-m", "fix; rm -rf $HOME `x`"],
            ),
            ("git commit -m \"two words\"", &["git", "commit", "-m", "two words"]),
            ("cat a''b\"c\"d", &["cat", "abcd"]),
            ("echo ''", &["echo", ""]),
            ("./gradlew test", &["./gradlew", "test"]),
            ("/usr/bin/make -j4", &["/usr/bin/make", "-j4"]),
            ("cargo test --features=a,b", &["cargo", "test", "--features=a,b"]),
            ("git diff HEAD~1", &["git", "diff", "HEAD~1"]),
            ("git show HEAD^", &["git", "show", "HEAD^"]),
            ("date +%s", &["date", "+%s"]),
            ("cat größe.txt", &["cat", "größe.txt"]),
            ("ls;", &["ls"]),
            ("ls &", &["ls"]),
        ] {
            assert_eq!(Shape::of(command), simple(words), "{command}");
        }
    }

    #[test]
    fn operators_and_line_ends_separate_commands() {
        for (command, commands) in [
            ("a && b", &[&["a"][..], &["b"]][..]),
            ("a&&b", &[&["a"], &["b"]]),
            ("a || b", &[&["a"], &["b"]]),
            ("a; b", &[&["a"], &["b"]]),
            ("a;b", &[&["a"], &["b"]]),
            ("a | b", &[&["a"], &["b"]]),
            ("a|b", &[&["a"], &["b"]]),
            ("a |& b", &[&["a"], &["b"]]),
            ("a & b", &[&["a"], &["b"]]),
            ("a\nb", &[&["a"], &["b"]]),
            ("a\n\n b 'x\ny'", &[&["a"], &["b", "x\ny"]]),
            ("npm test; rm -rf /", &[&["npm", "test"], &["rm", "-rf", "/"]]),
        ] {
            assert_eq!(Shape::of(command), list(commands), "{command:?}");
        }
    }

    #[test]
    fn whatever_the_shell_would_expand_is_opaque() {
        for command in [
            "",
            "  ",
            "\n",
            ";",
            "npm test $(rm x)",
            "npm test `rm x`",
            "npm test \"$(rm x)\"",
            "npm test \"`rm x`\"",
            "npm test \"a\\\"",
            "npm test \"!x\"",
            "npm test $HOME",
            "npm test ${HOME}",
            "npm test $'a'",
            "npm test > out",
            "npm test >> out",
            "npm test 2>&1",
            "npm test < in",
            "npm test <(rm x)",
            "npm test <<EOF\nx\nEOF",
            "(npm test)",
            "{ npm test; }",
            "npm test {a,b}",
            "npm test *",
            "npm test a?",
            "npm test [ab]",
            "npm test \\; rm",
            "npm test # comment",
            "npm test !x",
            "! npm test",
            "A=b npm test",
            "LD_PRELOAD=x.so npm test",
            "npm =ls",
            "~/bin/x",
            "'unclosed",
            "\"unclosed",
            "npm test\u{a0}x",
            "npm test\u{2028}rm x",
            "npm test\rrm x",
            "npm test\u{0}rm",
            "npm test \u{202e}x",
            "if true; then rm x; fi",
            "for a in b; do rm x; done",
            "while true; do rm x; done",
            "function f { rm x; }",
            "f() { rm x; }",
            "[[ a ]] && rm x",
            "'' x",
            "'a b' x",
            "caf\u{e9} x",
        ] {
            assert_eq!(Shape::of(command), Shape::Opaque, "{command:?}");
        }
    }

    #[test]
    fn prefixes_are_never_a_bare_program_and_never_a_runner() {
        for (command, prefix) in [
            ("npm test --watch", Some("npm test")),
            ("npm test", Some("npm test")),
            ("npm run build --prod", Some("npm run build")),
            ("npm run", None),
            ("npm exec -- x", None),
            ("cargo nextest run", Some("cargo nextest")),
            ("git status", Some("git status")),
            ("git -c core.pager=x log", None),
            ("git -C .. log", None),
            ("ls", None),
            ("ls -la", None),
            ("ls src", Some("ls src")),
            ("rm -rf x", None),
            ("cat a.txt", None),
            ("make", None),
            ("sudo apt install", None),
            ("/usr/bin/sudo apt install", None),
            ("bash build", None),
            ("sh -c x", None),
            ("python3 script", None),
            ("env node", None),
            ("find src -name x", None),
            ("xargs rm", None),
            ("eval ls", None),
        ] {
            let Shape::Simple(words) = Shape::of(command) else { panic!("{command}") };
            let offered = offered_prefix(&words).map(|words| words.join(" "));
            assert_eq!(offered.as_deref(), prefix, "{command}");
        }
    }
}
