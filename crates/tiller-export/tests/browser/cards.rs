//! A call and its result are one card, in the page and in the list beside it.

use serde_json::{Value, json};

use super::chromium::{Tab, with_tab};
use super::pages::{answer, page, sample, session, user};

fn call(id: &str, name: &str, arguments: Value) -> Value {
    json!({"type": "toolCall", "id": id, "name": name, "arguments": arguments})
}

fn result(id: &str, name: &str, text: &str, is_error: bool) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": name, "isError": is_error,
        "content": [{"type": "text", "text": text}], "timestamp": 1})
}

fn text(tab: &mut Tab, selector: &str) -> String {
    let selector = json!(selector);
    let text = format!("document.querySelector({selector})?.textContent ?? 'nothing'");
    tab.eval(&text).as_str().unwrap().to_owned()
}

#[test]
fn call_and_result_are_one_card() {
    with_tab("one-card", |tab| {
        let page = sample();
        tab.go(&page.path, "");
        // Each of the six calls has a result, so no answer shows one.
        assert_eq!(tab.eval("document.querySelectorAll('.call').length"), 0);
        assert_eq!(tab.eval("document.querySelectorAll('.tool').length"), 6);
        let bash = text(tab, "#entry-a0000666");
        assert!(bash.contains("git log --oneline -5") && bash.contains("41aa07b"), "{bash}");
        // A diff names its file, and the number of changed lines.
        assert_eq!(text(tab, "#entry-a0000eee > header > code"), "src/tide.rs");
        assert_eq!(text(tab, "#entry-a0000eee > details > summary"), "+2 −3");
        // The written content is shown instead of a confirmation.
        let write = text(tab, "#entry-a0000fff");
        assert!(write.contains("tests/clocks.rs") && write.contains("The night the clocks"));
        assert!(!tab.eval("log.textContent").as_str().unwrap().contains("Successfully"));
        // A failure is marked by more than colour.
        assert_eq!(text(tab, "#entry-a0001221 > header > .failed"), "failed");
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn calls_without_results_and_results_without_calls_are_shown_too() {
    with_tab("half-cards", |tab| {
        let edit = json!({"path": "src/parse.py", "edits": [{"oldText": "a", "newText": "b\nc"}]});
        let page = page(&session([
            user("Go"),
            answer(json!([
                call("1", "edit", edit.clone()),
                call("2", "bash", json!({"command": "make"})),
                call("1", "ls", json!({"path": "src"})),
            ])),
            result("1", "edit", "Successfully replaced 1 block(s) in src/parse.py.", false),
            result("3", "write", "Successfully wrote 3 bytes to a", false),
            answer(json!([call("1", "edit", edit)])),
            result("1", "edit", "Could not find the text in src/parse.py.", true),
        ]));
        tab.go(&page.path, "");
        let ids = "[...document.querySelectorAll('.call > header')].map(e => e.textContent)";
        assert_eq!(tab.eval(ids), json!(["bashno result", "lssrcno result"]));
        assert_eq!(text(tab, "#entry-e3 > header > code"), "src/parse.py");
        // Without a diff the texts themselves are shown.
        let lines =
            "[...document.querySelectorAll('#entry-e3 .diff > code > span')].map(e => e.className)";
        assert_eq!(tab.eval(lines), json!(["del", "add", "add"]));
        assert!(!text(tab, "#entry-e3").contains("Successfully"));
        assert!(text(tab, "#entry-e4").contains("Successfully wrote 3 bytes to a"));
        assert!(text(tab, "#entry-e6").contains("Could not find the text"));
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn tree_names_calls_and_marks_failures() {
    with_tab("tree-calls", |tab| {
        let page = sample();
        tab.go(&page.path, "");
        let rows = tab.eval("[...document.querySelectorAll('#rows .t')].map(e => e.textContent)");
        assert_eq!(
            rows,
            json!([
                "bash git log --oneline -5 -- src/tide.rs && wc -l src/tide.rs",
                "read src/tide.rs",
                "edit src/tide.rs",
                "write tests/clocks.rs",
                "bash cargo test --test clocks 2>&1 | tail -n 20",
                "tide_almanac Brest 2026-10-25 minute",
            ])
        );
        let failed =
            tab.eval("[...document.querySelectorAll('#rows .failed')].map(e => e.textContent)");
        assert_eq!(failed, json!(["bash cargo test --test clocks 2>&1 | tail -n 20"]));
        let red = "(() => {
            const colour = (selector) => getComputedStyle(document.querySelector(selector)).color;
            return [colour('#rows .failed a'), colour('.err > header > .failed')];
        })()";
        assert_eq!(tab.eval(red), json!(["rgb(154, 28, 28)", "rgb(154, 28, 28)"]));
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn search_finds_a_call_where_it_is_shown() {
    with_tab("search-calls", |tab| {
        let page = sample();
        tab.go(&page.path, "");
        tab.press("/");
        tab.call("Input.insertText", json!({"text": "tail -n 20"}));
        tab.until("document.getElementById('count').textContent === '1 of 26 entries'");
        assert_eq!(
            tab.eval("document.querySelector('#rows a').getAttribute('href')"),
            "#entry-a0001221"
        );
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn folded_branch_is_titled_by_its_first_message() {
    with_tab("branch-title", |tab| {
        let sample = include_str!("../sample/session.jsonl");
        let note = json!({"type": "label", "id": "b1", "parentId": "a0000888", "targetId": "a0000888",
            "timestamp": "2026-11-16T01:10:00.000Z", "label": "a note"});
        let model = json!({"type": "model_change", "id": "b2", "parentId": "b1", "provider": "p",
            "timestamp": "2026-11-16T01:10:00.000Z", "modelId": "m"});
        let said = json!({"type": "message", "id": "b3", "parentId": "b2",
            "timestamp": "2026-11-16T01:10:00.000Z", "message": user("Was it the moon?")});
        // The conversation itself continues as before.
        let last = json!({"type": "label", "id": "b4", "parentId": "a0001bba", "targetId": "a0000888",
            "timestamp": "2026-11-16T01:10:00.000Z", "label": "still"});
        let page = page(&format!("{}\n{note}\n{model}\n{said}\n{last}\n", sample.trim_end()));
        tab.go(&page.path, "");
        let titles =
            "[...document.querySelectorAll('.branch > summary .first')].map(e => e.textContent)";
        assert_eq!(
            tab.eval(titles),
            json!(["Just subtract an hour in winter, I am in a hurry.", "Was it the moon?"])
        );
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn deep_link_highlights_its_entry() {
    with_tab("link-mark", |tab| {
        let page = sample();
        let outlined = |id: &str| {
            format!("getComputedStyle(document.getElementById('entry-{id}')).outlineStyle")
        };
        tab.go(&page.path, "#entry-a0000bbb");
        tab.until("document.getAnimations().length === 0");
        assert_eq!(tab.eval(&outlined("a0000bbb")), "solid");
        let marked =
            "[...document.querySelectorAll('#log [aria-current=location]')].map(e => e.id)";
        assert_eq!(tab.eval(marked), json!(["entry-a0000bbb"]));
        tab.eval("location.hash = 'entry-a0000ddd'");
        tab.until("document.querySelector('.target')?.id === 'entry-a0000ddd'");
        assert_eq!(tab.eval(&outlined("a0000bbb")), "none");
        assert_eq!(tab.eval(marked), json!(["entry-a0000ddd"]));
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
    with_tab("link-mark-no-script", |tab| {
        let page = sample();
        tab.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
        tab.go_without_waiting(&page.path, "#entry-a0000bbb");
        let outline = "getComputedStyle(document.getElementById('entry-a0000bbb')).outlineStyle";
        assert_eq!(tab.eval(outline), "solid");
    });
}
