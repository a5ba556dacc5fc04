//! A session that is too long to be laid out at once.

use serde_json::json;

use super::chromium::with_tab;
use super::pages::{answer, page, session, user};

const ENTRIES: usize = 7000;

fn long() -> String {
    session((1..=ENTRIES).map(|at| match at % 2 {
        1 => user(&format!("Request {at}")),
        _ => answer(json!([{"type": "text", "text": format!("Answer {at} with `code` in it.")}])),
    }))
}

#[test]
fn old_entries_are_folded_until_requested() {
    with_tab("long", |tab| {
        let page = page(&long());
        tab.go(&page.path, "");
        assert_eq!(tab.eval("document.querySelectorAll('.e').length"), 2000);
        assert_eq!(tab.eval("document.querySelectorAll('.pack').length"), 10);
        let bars = "[...document.querySelectorAll('.packed')].map(e => e.firstChild.data)";
        assert_eq!(tab.eval(bars), json!(["5,000 earlier entries are folded"]));
        assert_eq!(
            tab.eval("document.getElementById('count').textContent"),
            format!("{0} of {0} entries", "7,000"),
        );
        // Only the visible part of the list is in the document.
        assert_eq!(tab.eval("document.querySelectorAll('#rows li').length < 100"), true);
        tab.eval("location.hash = 'entry-e1203'");
        tab.until(
            "document.getElementById('entry-e1203')?.getBoundingClientRect().top < innerHeight",
        );
        tab.until("document.getElementById('entry-e1203').getBoundingClientRect().top > 0");
        assert_eq!(tab.eval("document.querySelectorAll('.e').length"), 2500);
        assert_eq!(
            tab.eval(bars),
            json!(["1,000 earlier entries are folded", "3,500 earlier entries are folded"])
        );
        // They unfold in place.
        let order = "[...document.querySelectorAll('.e')].map(e => +e.id.slice(7)).every((n, i, all) => !i || n > all[i - 1])";
        assert_eq!(tab.eval(order), true);
        tab.click(".packed button:last-child");
        tab.until("document.getElementById('entry-e1000')?.checkVisibility()");
        tab.click(".packed button");
        tab.until("document.getElementById('entry-e1')?.checkVisibility()");
        assert_eq!(tab.eval(order), true);
        // Search finds folded entries.
        tab.press("/");
        tab.call("Input.insertText", json!({"text": "answer 2222 code"}));
        tab.until("document.getElementById('count').textContent === '1 of 7,000 entries'");
        tab.press("Enter");
        tab.until("document.getElementById('entry-e2222')?.checkVisibility()");
        assert_eq!(tab.eval(order), true);
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn without_scripting_a_long_page_names_what_is_folded() {
    with_tab("long-no-script", |tab| {
        let page = page(&long());
        tab.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
        tab.go_without_waiting(&page.path, "");
        let text = tab.eval(
            "[...document.querySelectorAll('#page > *, noscript')].map(e => e.textContent).join()",
        );
        let text = text.as_str().unwrap();
        assert!(text.contains("5,000 of 7,000 entries are hidden"), "{text:.500}");
        assert!(text.contains("Answer 7000 with code in it."));
    });
}
