//! The decision about one call.

use super::{ApprovalMode, CallFacts, CallTarget, Grant, Grants, Place, Rules};
use crate::tool::ToolEffect;

#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    Run,
    /// The user decides, and may choose one of these grants for the rest of the session.
    Ask(Vec<Grant>),
    Refuse(Refused),
}

/// Why a call is refused without asking.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// By this rule of `permissions.deny`.
    ByRule(String),
    /// The mode is `read-only`, and the tool may do more than read.
    ReadOnly,
}

/// What happens to a call. The strictest answer wins: a rule that denies, the mode `read-only`, a
/// rule that asks, a rule or a grant that allows, the mode.
pub fn decide(mode: ApprovalMode, rules: &Rules, grants: &Grants, call: &CallFacts) -> Decision {
    let reads = call.effect == ToolEffect::Reads;
    if let Some(rule) = rules.refusing(call) {
        return Decision::Refuse(Refused::ByRule(rule.to_owned()));
    }
    if mode == ApprovalMode::ReadOnly && !reads {
        return Decision::Refuse(Refused::ReadOnly);
    }
    if rules.ask_about(call) {
        if grants.name(call) {
            return Decision::Run;
        }
        return Decision::Ask(Grant::offered_exactly(call));
    }
    let edits_inside = call.effect == ToolEffect::Edits
        && matches!(&call.target, CallTarget::Path(path) if path.place == Place::Inside);
    let runs = reads
        || mode == ApprovalMode::Off
        || mode == ApprovalMode::Edits && edits_inside
        || rules.allow(call)
        || grants.cover(call);
    if runs { Decision::Run } else { Decision::Ask(Grant::offered(call)) }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::super::{PathTarget, RuleBases};
    use super::*;
    use ApprovalMode::{Ask, Edits, Off, ReadOnly};

    fn call(tool: &str, target: &str) -> CallFacts {
        let effect = match tool {
            "read" | "grep" | "find" | "ls" | "todo_write" => ToolEffect::Reads,
            "edit" | "write" => ToolEffect::Edits,
            "bash" => ToolEffect::RunsCommands,
            _ => ToolEffect::Other,
        };
        let cwd = Path::new("/work");
        let target = match effect {
            ToolEffect::RunsCommands => CallTarget::Command(target.to_owned()),
            ToolEffect::Other => CallTarget::Unknown,
            _ => {
                // `named -> real` is a symbolic link.
                let (named, real) = target.split_once(" -> ").unwrap_or((target, target));
                let (named, real) = (cwd.join(named), cwd.join(real));
                CallTarget::Path(PathTarget { named, place: Place::of(&real, cwd), real })
            }
        };
        CallFacts { tool: tool.to_owned(), effect, target }
    }

    fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> Rules {
        let owned = |list: &[&str]| list.iter().map(|rule| (*rule).to_owned()).collect::<Vec<_>>();
        let bases = RuleBases { cwd: Path::new("/work"), home: Some(Path::new("/home/u")) };
        let mut problems = Vec::new();
        Rules::read(&owned(allow), &owned(ask), &owned(deny), bases, &mut problems)
    }

    fn word(decision: &Decision) -> &'static str {
        match decision {
            Decision::Run => "run",
            Decision::Ask(_) => "ask",
            Decision::Refuse(Refused::ByRule(_)) => "deny",
            Decision::Refuse(Refused::ReadOnly) => "read-only",
        }
    }

    fn decided(mode: ApprovalMode, rules: &Rules, tool: &str, target: &str) -> &'static str {
        word(&decide(mode, rules, &Grants::default(), &call(tool, target)))
    }

    #[test]
    fn each_mode_without_rules() {
        // The columns are off, edits, ask and read-only.
        for (tool, target, expected) in [
            ("read", "a", ["run", "run", "run", "run"]),
            ("read", "/etc/passwd", ["run", "run", "run", "run"]),
            ("ls", ".", ["run", "run", "run", "run"]),
            ("todo_write", "", ["run", "run", "run", "run"]),
            ("edit", "a", ["run", "run", "ask", "read-only"]),
            ("write", "src/a", ["run", "run", "ask", "read-only"]),
            ("write", "a -> /etc/hosts", ["run", "ask", "ask", "read-only"]),
            ("write", "/etc/hosts", ["run", "ask", "ask", "read-only"]),
            ("write", ".git/hooks/pre-commit", ["run", "ask", "ask", "read-only"]),
            ("edit", ".pi/settings.json", ["run", "ask", "ask", "read-only"]),
            ("edit", "link -> .git/config", ["run", "ask", "ask", "read-only"]),
            ("bash", "ls", ["run", "ask", "ask", "read-only"]),
            ("deploy", "", ["run", "ask", "ask", "read-only"]),
        ] {
            let none = Rules::default();
            let decided =
                [Off, Edits, Ask, ReadOnly].map(|mode| decided(mode, &none, tool, target));
            assert_eq!(decided, expected, "{tool} {target}");
        }
    }

    #[test]
    fn rules_for_commands() {
        let rules = rules(
            &["bash(npm test)", "bash(git log *)", "bash(cargo:*)", "bash(rm *)"],
            &["bash(git push *)", "bash(git push)"],
            &["bash(rm *)", "bash(curl *)"],
        );
        for (command, off, ask) in [
            ("npm test", "run", "run"),
            ("npm test --watch", "run", "ask"),
            ("npm test && true", "run", "ask"),
            ("npm test; curl x", "deny", "deny"),
            ("npm test > x", "ask", "ask"),
            ("git log", "run", "run"),
            ("git log --oneline", "run", "run"),
            ("git log | cat", "run", "ask"),
            ("git log $(true)", "ask", "ask"),
            ("git logs", "run", "ask"),
            ("cargo build", "run", "run"),
            ("git push", "ask", "ask"),
            ("git push origin main", "ask", "ask"),
            ("git status && git push", "ask", "ask"),
            ("rm x", "deny", "deny"),
            ("/bin/rm x", "deny", "deny"),
            ("sudo rm x", "deny", "deny"),
            ("sudo -u root /bin/rm x", "deny", "deny"),
            ("ls | xargs rm -f", "deny", "deny"),
            ("echo rm x", "run", "ask"),
            ("rmdir x", "run", "ask"),
            ("bash -c 'rm x'", "ask", "ask"),
            ("python3 x.py", "ask", "ask"),
            ("$(echo rm) x", "ask", "ask"),
            ("r\\m x", "ask", "ask"),
            ("'rm' x", "deny", "deny"),
        ] {
            assert_eq!(decided(Off, &rules, "bash", command), off, "off: {command}");
            assert_eq!(decided(Ask, &rules, "bash", command), ask, "ask: {command}");
            let strict = decided(ReadOnly, &rules, "bash", command);
            assert!(["deny", "read-only"].contains(&strict), "read-only: {command}");
        }
    }

    #[test]
    fn rules_for_paths() {
        let rules = rules(
            &["write(docs/**)", "edit(/tmp/*)", "edit(~/notes/**)"],
            &["edit(src/api.rs)"],
            &["read(secret/**)", "read(~/.ssh/**)", "write(**/*.lock)", "grep(*.key)"],
        );
        for (tool, target, expected) in [
            ("write", "docs/a.md", "run"),
            ("write", "docs/deep/a.md", "run"),
            ("write", "docs/a -> /etc/hosts", "ask"),
            ("write", "link -> docs/a", "run"),
            ("write", "Cargo.lock", "deny"),
            ("write", "docs/Cargo.lock", "deny"),
            ("write", "link -> Cargo.lock", "deny"),
            ("write", "Cargo.lock -> other", "deny"),
            ("edit", "/tmp/a", "run"),
            ("edit", "/tmp/a/b", "ask"),
            ("edit", "/home/u/notes/x", "run"),
            ("edit", "src/api.rs", "ask"),
            ("read", "secret/key", "deny"),
            ("read", "link -> secret/key", "deny"),
            ("read", "/home/u/.ssh/id", "deny"),
            ("read", "secret", "run"),
            ("grep", "a.key", "deny"),
            ("grep", "sub/a.key", "run"),
        ] {
            assert_eq!(decided(Ask, &rules, tool, target), expected, "{tool} {target}");
        }
    }

    #[test]
    fn rules_for_tools_may_be_patterns() {
        let rules = rules(&["mcp__docs__*", "bash(*)"], &["deploy"], &["mcp__*__delete", "ls"]);
        for (tool, target, expected) in [
            ("mcp__docs__search", "", "run"),
            ("mcp__docs__delete", "", "deny"),
            ("mcp__other__read", "", "ask"),
            ("deploy", "", "ask"),
            ("bash", "rm x", "run"),
            ("ls", ".", "deny"),
        ] {
            assert_eq!(decided(Ask, &rules, tool, target), expected, "{tool} {target}");
        }
    }

    #[test]
    fn rule_that_cannot_be_read_allows_nothing_and_restricts_the_whole_tool() {
        let bases = RuleBases { cwd: Path::new("/work"), home: None };
        let texts = |list: &[&str]| list.iter().map(|rule| (*rule).to_owned()).collect::<Vec<_>>();
        let mut problems = Vec::new();
        let allow = texts(&["bash(npm test", "edit", "()", "deploy(x)"]);
        let ask = texts(&["write(["]);
        let deny = texts(&["bash(rm *; ls)", "read(~/.ssh/**)"]);
        let rules = Rules::read(&allow, &ask, &deny, bases, &mut problems);
        assert_eq!(
            problems,
            [
                "permissions.allow: rule `bash(npm test` does not end with `)`; it allows nothing",
                "permissions.allow: rule `()` names no tool; it allows nothing",
                "permissions.allow: rule `deploy(x)` has a pattern, which only rules for bash and the \
             tools for files can have; it allows nothing",
                "permissions.ask: rule `write([` does not end with `)`; it counts for every call of \
             the tool",
                "permissions.deny: rule `bash(rm *; ls)` is not the beginning of one plain command, \
             such as `bash(git push *)`; it counts for every call of the tool",
                "permissions.deny: rule `read(~/.ssh/**)` needs a home folder; it counts for every \
             call of the tool",
            ]
        );
        for (tool, target, expected) in [
            ("edit", "a", "run"),
            ("bash", "npm test", "deny"),
            ("write", "a", "ask"),
            ("read", "a", "deny"),
            ("ls", ".", "run"),
        ] {
            assert_eq!(decided(Off, &rules, tool, target), expected, "{tool} {target}");
        }
        let deny_all = Rules::read(&[], &[], &texts(&["5"]), bases, &mut problems);
        assert_eq!(decided(Off, &deny_all, "ls", "."), "run");
        let deny_all = Rules::read(&[], &[], &texts(&["(x"]), bases, &mut problems);
        assert_eq!(decided(Off, &deny_all, "ls", "."), "deny");
    }

    #[test]
    fn grants_offered_for_a_call() {
        let path = |tool: &str, path: &str| Grant::Path(tool.into(), PathBuf::from(path));
        let command = |text: &str| Grant::Command(text.into());
        let prefix = |words: &[&str]| Grant::Prefix(words.iter().map(|w| (*w).into()).collect());
        let push = rules(&[], &["bash(git push *)", "deploy", "edit(a)"], &[]);
        let none = Rules::default();
        for (rules, tool, target, expected) in [
            (&none, "deploy", "", vec![Grant::Tool("deploy".into())]),
            (&none, "edit", "a", vec![Grant::InFolder("edit".into())]),
            (&none, "edit", "/etc/x", vec![path("edit", "/etc/x")]),
            (&none, "edit", ".git/config", vec![path("edit", "/work/.git/config")]),
            (&none, "bash", "ls -la", vec![command("ls -la")]),
            (&none, "bash", "npm test -x", vec![command("npm test -x"), prefix(&["npm", "test"])]),
            (&none, "bash", "npm test | cat", vec![command("npm test | cat")]),
            (&none, "bash", "npm test $(x)", vec![command("npm test $(x)")]),
            (&push, "bash", "git push origin", vec![command("git push origin")]),
            (&push, "deploy", "", vec![]),
            (&push, "edit", "a", vec![path("edit", "/work/a")]),
        ] {
            let decision = decide(Ask, rules, &Grants::default(), &call(tool, target));
            assert_eq!(decision, Decision::Ask(expected), "{tool} {target}");
        }
    }

    #[test]
    fn grant_covers_what_was_chosen_and_nothing_else() {
        let prefix = || Grant::Prefix(vec!["npm".into(), "test".into()]);
        let push = ["bash(git push *)"];
        for (grant, ask, tool, target, expected) in [
            (prefix(), &[][..], "bash", "npm test", "run"),
            (prefix(), &[], "bash", "npm test --watch", "run"),
            (prefix(), &[], "bash", "npm  'test' x", "run"),
            (prefix(), &[], "bash", "npm tests", "ask"),
            (prefix(), &[], "bash", "npm test; rm x", "ask"),
            (prefix(), &[], "bash", "npm test && rm x", "ask"),
            (prefix(), &[], "bash", "npm test | sh", "ask"),
            (prefix(), &[], "bash", "npm test $(rm x)", "ask"),
            (prefix(), &[], "bash", "npm test `rm x`", "ask"),
            (prefix(), &[], "bash", "npm test\nrm x", "ask"),
            (prefix(), &[], "bash", "npm test > /etc/x", "ask"),
            (prefix(), &[], "bash", "npm test &", "run"),
            (prefix(), &[], "bash", "npm test & rm x", "ask"),
            (prefix(), &[], "bash", "A=b npm test", "ask"),
            (prefix(), &[], "deploy", "", "ask"),
            (Grant::Command("a | b".into()), &[], "bash", "a | b", "run"),
            (Grant::Command("a | b".into()), &[], "bash", "a | b ", "ask"),
            (Grant::Command("git push x".into()), &push, "bash", "git push x", "run"),
            (Grant::Prefix(vec!["git".into(), "push".into()]), &push, "bash", "git push x", "ask"),
            (Grant::Tool("deploy".into()), &[], "deploy", "", "run"),
            (Grant::Tool("deploy".into()), &["deploy"], "deploy", "", "ask"),
            (Grant::Tool("bash".into()), &[], "bash", "ls", "ask"),
            (Grant::InFolder("edit".into()), &[], "edit", "a", "run"),
            (Grant::InFolder("edit".into()), &[], "write", "a", "ask"),
            (Grant::InFolder("edit".into()), &[], "edit", "/etc/x", "ask"),
            (Grant::InFolder("edit".into()), &[], "edit", ".git/x", "ask"),
            (Grant::Path("edit".into(), "/etc/x".into()), &[], "edit", "/etc/x", "run"),
            (Grant::Path("edit".into(), "/etc/x".into()), &[], "edit", "/etc/y", "ask"),
        ] {
            let mut grants = Grants::default();
            grants.add(grant.clone());
            let decided = decide(Ask, &rules(&[], ask, &[]), &grants, &call(tool, target));
            assert_eq!(word(&decided), expected, "{grant:?}: {tool} {target:?}");
            let refused = decide(ReadOnly, &rules(&[], ask, &[]), &grants, &call(tool, target));
            assert_eq!(word(&refused), "read-only", "{grant:?}: {tool} {target:?}");
        }
    }
}
