//! What matches, independent of how a text is split into deltas.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::pattern::translate;
use super::*;
use crate::event::Update;
use crate::message::{Arguments, ToolCall};

fn rule(name: &str, conditions: &[&str]) -> Rule {
    let path = PathBuf::from(format!("/rules/{name}.md"));
    Rule {
        name: name.to_owned(),
        content: "Do not.".to_owned(),
        globs: Vec::new(),
        always_apply: false,
        description: None,
        condition: conditions.iter().map(|&condition| condition.to_owned()).collect(),
        scope: Vec::new(),
        interrupt_mode: None,
        source: RuleSource::new(path.clone(), RuleLevel::Project),
        path,
    }
}

fn scoped(name: &str, condition: &str, scope: &str, globs: &[&str]) -> Rule {
    let scope = split_list(scope);
    let globs = globs.iter().map(|&glob| glob.to_owned()).collect();
    Rule { scope, globs, ..rule(name, &[condition]) }
}

/// Steps in short form: `text …`, `think …`, `edit …` and `bash …` are deltas, `end NAME` ends.
fn steps(script: &str) -> Vec<Update> {
    const NAMES: [&str; 4] = ["text", "think", "edit", "bash"];
    let mut begun = [false; 4];
    let mut steps = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (is_end, name) = if word == "end" { (true, rest) } else { (false, word) };
        let index = NAMES.iter().position(|known| *known == name).unwrap();
        if index > 1 && !std::mem::replace(&mut begun[index], true) {
            steps.push(Update::CallStart { index, id: "c".into(), name: name.into() });
        }
        let delta = rest.to_owned();
        let nothing = || (String::new(), None);
        steps.push(match (index, is_end) {
            (0, false) => Update::TextDelta { index, delta },
            (1, false) => Update::ThinkingDelta { index, delta },
            (_, false) => Update::CallDelta { index, delta },
            (0, true) => {
                let (content, signature) = nothing();
                Update::TextEnd { index, content, signature }
            }
            (1, true) => {
                let (content, signature) = nothing();
                Update::ThinkingEnd { index, content, signature, redacted: false }
            }
            (_, true) => {
                let call = ToolCall {
                    id: "c".into(),
                    name: name.into(),
                    arguments: Arguments::default(),
                    arguments_error: None,
                    thought_signature: None,
                };
                Update::CallEnd { index, call: Box::new(call) }
            }
        });
    }
    steps
}

fn watch(rules: Vec<Rule>) -> (Option<RuleMatcher>, Vec<String>) {
    let compiled = RuleSet::compile(rules);
    let cwd = Arc::new(PathBuf::from("/work"));
    (compiled.set.map(|set| RuleMatcher::new(set, cwd)), compiled.problems)
}

/// Prints each step's number and the rules it completes, after problems of the rules.
fn check(rules: Vec<Rule>, script: &str, expected: Expect) {
    let (watch, mut found_rules) = watch(rules);
    if let Some(mut watch) = watch {
        let shown = steps(script).into_iter();
        let shown = shown.filter(|step| {
            !matches!(step, Update::CallStart { .. }) || {
                watch.read(step);
                false
            }
        });
        let lines: Vec<Update> = shown.collect();
        // Calls were opened above; nothing else was read yet.
        for (line, step) in lines.iter().enumerate() {
            for found in watch.read(step) {
                found_rules.push(format!(
                    "step {}: {} ({:?})",
                    line + 1,
                    found.rule.name,
                    found.kind
                ));
            }
        }
    }
    expected.assert_eq(&found_rules.join("\n"));
}

#[test]
fn match_across_deltas_is_reported_once() {
    check(
        vec![rule("foo", &[r"FOOBAR\d+"])],
        "text Let me use FOO
         text BAR1
         text 2 FOOBAR3",
        expect!["step 2: foo (Prose)"],
    );
}

#[test]
fn any_condition_matches_its_rule() {
    check(
        vec![rule("one", &["aa", "bb"]), rule("two", &["bb"]), rule("three", &["cc"])],
        "text xbb
         text aacc",
        expect![[r#"
            step 1: one (Prose)
            step 1: two (Prose)
            step 2: three (Prose)"#]],
    );
}

#[test]
fn assertions_wait_for_the_next_byte() {
    check(
        vec![rule("word", &[r"\bcat\b"]), rule("end", &["cat$"]), rule("start", &["^a"])],
        "text a cat
         text alogue, a cat
         text .
         text  cat
         end text",
        expect![[r#"
            step 1: start (Prose)
            step 3: word (Prose)
            step 5: end (Prose)"#]],
    );
}

#[test]
fn blocks_share_a_stream_and_end_it() {
    check(
        vec![rule("end", &["cat$"]), rule("over", &["catdog"])],
        "text cat
         end text
         text dog",
        expect![[r#"
            step 2: end (Prose)
            step 3: over (Prose)"#]],
    );
}

#[test]
fn scopes_select_text_thinking_and_tools() {
    let rules = || {
        vec![
            rule("default", &["X"]),
            scoped("text", "X", "text", &[]),
            scoped("thinking", "X", "thinking", &[]),
            scoped("tool", "X", "tool", &[]),
            scoped("edit", "X", "tool:edit", &[]),
            scoped("name", "X", "Edit, thinking", &[]),
            scoped("globs", "X", "", &["*.rs"]),
        ]
    };
    check(
        rules(),
        "text X",
        expect![[r#"
        step 1: default (Prose)
        step 1: text (Prose)"#]],
    );
    check(
        rules(),
        "think X",
        expect![[r#"
        step 1: thinking (Prose)
        step 1: name (Prose)"#]],
    );
    check(
        rules(),
        "bash {\"command\":\"X",
        expect![[r#"
        step 1: default (Call)
        step 1: tool (Call)"#]],
    );
    check(
        rules(),
        "edit {\"path\":\"src/a.rs\",\"text\":\"X",
        expect![[r#"
        step 1: default (Call)
        step 1: tool (Call)
        step 1: edit (Call)
        step 1: name (Call)
        step 1: globs (Call)"#]],
    );
}

#[test]
fn paths() {
    let rules = || {
        vec![
            scoped("name", "X", "edit(*.rs)", &[]),
            scoped("below", "X", "edit(src/**/*.rs)", &[]),
            scoped("one", "X", "edit(src/*.rs)", &[]),
            scoped("absolute", "X", "tool(/work/src/**)", &[]),
            scoped("either", "X", "edit(**/*.{ts,rs})", &[]),
        ]
    };
    check(
        rules(),
        r#"edit {"path":"./src/deep/a.rs","text":"X"#,
        expect![[r#"
        step 1: name (Call)
        step 1: below (Call)
        step 1: absolute (Call)
        step 1: either (Call)"#]],
    );
    check(
        rules(),
        r#"edit {"file_path":"/work/src/a.rs","text":"X"#,
        expect![[r#"
        step 1: name (Call)
        step 1: below (Call)
        step 1: one (Call)
        step 1: absolute (Call)
        step 1: either (Call)"#]],
    );
    check(
        rules(),
        r#"edit {"text":"X \"path\":\"b.rs\"","more":{"paths":["a.txt",
           edit "b.rs"
           edit ]}}"#,
        expect![[r#"
            step 2: name (Call)
            step 2: either (Call)"#]],
    );
    check(rules(), r#"edit {"path":"a.rs","text":"x"#, expect![""]);
    check(rules(), r#"edit {"path":"src/a.r"#, expect![""]);
}

#[test]
fn path_alone_can_match() {
    check(
        vec![scoped("touched", ".*", "tool:edit(*.rs), tool:write(*.rs)", &[])],
        r#"edit {"pa
           edit th":"x.r
           edit s"
           edit ,"text":""}"#,
        expect!["step 3: touched (Call)"],
    );
}

#[test]
fn look_around_is_matched_at_the_end_of_a_block() {
    let rules = || {
        vec![
            rule("ahead", &["foo(?!bar)"]),
            rule("behind", &[r"(?<!\w)any\b"]),
            rule("back", &[r#"(['"])x\1"#]),
        ]
    };
    check(rules(), "text foobar many\nend text", expect![""]);
    check(
        rules(),
        "text foo\ntext bar foo any 'x'\nend text",
        expect![[r#"
        step 3: ahead (Prose)
        step 3: behind (Prose)
        step 3: back (Prose)"#]],
    );
}

#[test]
fn look_around_is_matched_within_long_texts() {
    let (watch, _) = watch(vec![rule("ahead", &["foo(?!bar)"])]);
    let mut watch = watch.unwrap();
    let mut at = None;
    for number in 0..8000 {
        let delta = if number == 1000 { "é foo é" } else { "lorem é ip" };
        let update = Update::TextDelta { index: 0, delta: delta.to_owned() };
        if !watch.read(&update).is_empty() {
            at = at.or(Some(number));
        }
    }
    // The first search after it: 32 KB in deltas of 11 bytes.
    assert_eq!(at, Some(2979));
}

#[test]
fn invalid_rules_are_reported() {
    check(
        vec![
            rule("paren", &["(a", "b"]),
            rule("huge", &["(a{1000}){1000}"]),
            scoped("lost", "a", "text(x), tool:, ???", &[]),
            scoped("half", "a", "text, tool:edit([)", &[]),
            scoped("glob", "a", "", &["{a"]),
        ],
        "text ab",
        expect![[r#"
            rule /rules/paren.md: the condition `(a` is ignored: a group is never closed
            rule /rules/huge.md: the condition `(a{1000}){1000}` is ignored: it is too large
            rule /rules/lost.md: the scope `text(x)` is ignored: only calls have paths
            rule /rules/lost.md: the scope `tool:` is ignored: it is neither text, thinking, tool nor the name of a tool
            rule /rules/lost.md: the scope `???` is ignored: it is neither text, thinking, tool nor the name of a tool
            rule /rules/lost.md is ignored: nothing in its scope can be understood
            rule /rules/half.md: the scope `tool:edit([)` is ignored: unclosed character class; missing ']'
            rule /rules/glob.md: the glob `{a` is ignored: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
            rule /rules/glob.md is ignored: none of its globs can be understood
            step 1: paren (Prose)
            step 1: half (Prose)"#]],
    );
}

#[test]
fn lists() {
    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&format!("{:?}", split_list(text)));
    }
    check("text, thinking", expect![[r#"["text", "thinking"]"#]]);
    check(
        "tool:edit(*.{ts,tsx}), 'a,b' ,, \"c\"",
        expect![[r#"["tool:edit(*.{ts,tsx})", "a,b", "c"]"#]],
    );
    check("", expect!["[]"]);
}

const CONDITIONS: [&str; 16] = [
    "ab+a",
    r"\bab\b",
    "b$",
    "^ab",
    r"[^a]é+",
    "(a|b)c.b",
    r"\Bb\B",
    r"\s\w",
    "c{2}",
    "é$",
    "a.*c",
    r"(?:ab)+\b\s*",
    "a(?=b)",
    r"(?<!a)b",
    r"(a|b)\1",
    "[]",
];

/// The rules, and each condition for the backtracking engine: an empty lookahead selects it.
static BOTH: LazyLock<(Arc<RuleSet>, Vec<fancy_regex::Regex>)> = LazyLock::new(|| {
    let rules = CONDITIONS.iter().map(|condition| rule(condition, &[condition])).collect();
    let compiled = RuleSet::compile(rules);
    assert_eq!(compiled.problems, Vec::<String>::new());
    let other = CONDITIONS.iter().map(|condition| {
        let regex = translate(&format!("(?:{condition})(?!\u{1})")).unwrap().regex;
        fancy_regex::Regex::new(&regex).unwrap()
    });
    (compiled.set.unwrap(), other.collect())
});

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However a text is split into deltas, the result equals a search of the whole text.
    #[test]
    fn result_does_not_depend_on_deltas(
        text in "[abcé \n]{0,40}",
        cuts in prop::collection::vec(0..5_usize, 0..40),
    ) {
        let (set, other) = &*BOTH;
        let mut watch = RuleMatcher::new(set.clone(), Arc::default());
        let mut found: Vec<String> = Vec::new();
        let mut tell = |update: &Update| {
            found.extend(watch.read(update).into_iter().map(|found| found.rule.name.clone()));
        };
        let mut rest: Vec<char> = text.chars().collect();
        for cut in cuts {
            let delta = rest.drain(..cut.min(rest.len())).collect();
            tell(&Update::TextDelta { index: 0, delta });
        }
        tell(&Update::TextDelta { index: 0, delta: rest.into_iter().collect() });
        tell(&Update::TextEnd { index: 0, content: String::new(), signature: None });
        for (condition, other) in CONDITIONS.iter().zip(other) {
            let whole = other.is_match(&text).unwrap();
            prop_assert_eq!(found.iter().any(|name| name == condition), whole, "{}", condition);
        }
    }
}
