//! The list of entries, search, filters, links, keyboard shortcuts.

use serde_json::json;

use super::chromium::{Tab, with_tab};
use super::pages::sample;

const ROWS: &str = "[...document.querySelectorAll('#rows li')]";
/// The first entry of an abandoned branch, and one of the conversation.
const LEFT: &str = "a0000999";
const FIX: &str = "a0000bbb";

/// The list's count of shown entries.
fn count(tab: &mut Tab) -> String {
    tab.eval("document.getElementById('count').textContent").as_str().unwrap().to_owned()
}

fn is_in_view(id: &str) -> String {
    format!(
        "(() => {{ const b = document.getElementById('entry-{id}').getBoundingClientRect(); \
         return b.height > 0 && b.top > 0 && b.top < innerHeight }})()"
    )
}

#[test]
fn tree_shows_branches_and_the_path() {
    with_tab("tree", |tab| {
        let page = sample();
        tab.go(&page.path, "");
        assert_eq!(count(tab), "22 of 26 entries");
        assert_eq!(tab.eval(&format!("{ROWS}.length")), 22);
        let left =
            tab.eval(&format!("{ROWS}.filter(e => e.matches('.off')).map(e => e.textContent)"));
        assert_eq!(left.as_array().unwrap().len(), 2, "{left}");
        assert!(left[0].as_str().unwrap().starts_with("Just subtract an hour"));
        assert_eq!(tab.eval("document.querySelector('.branch').open"), false);
        // Marks have text alternatives.
        let names = tab.eval(&format!("{ROWS}.map(e => e.firstChild.ariaLabel)"));
        let names: Vec<&str> =
            names.as_array().unwrap().iter().filter_map(|n| n.as_str()).collect();
        for name in [
            "User, on another branch, Just subtract an hour",
            "User, the fix, Yes, the first.",
            "Tool, failed, bash cargo test",
            "Summary, Compaction: Goal The tide table",
        ] {
            assert!(names.iter().any(|it| it.starts_with(name)), "{name} in {names:#?}");
        }
        let places = "[document.querySelector('#rows li').ariaPosInSet, document.querySelector('#rows li').ariaSetSize]";
        assert_eq!(tab.eval(places), json!(["1", "22"]));
        tab.click("#rows li.off a");
        tab.until(&is_in_view(LEFT));
        assert_eq!(tab.eval("document.querySelector('.branch').open"), true);
        assert_eq!(tab.eval("location.hash"), format!("#entry-{LEFT}"));
        let current = "document.querySelector('#rows [aria-current]').textContent";
        assert!(tab.eval(current).as_str().unwrap().starts_with("Just subtract an hour"));
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn search_covers_all_text() {
    with_tab("search", |tab| {
        let page = sample();
        tab.go(&page.path, "");
        tab.press("/");
        tab.call("Input.insertText", json!({"text": "Almanac  MINUTE"}));
        tab.until("document.getElementById('count').textContent === '4 of 26 entries'");
        assert_eq!(tab.eval("CSS.highlights.get('found').size > 2"), true);
        tab.press("Enter");
        tab.until("location.hash !== ''");
        let first = tab.eval("location.hash");
        tab.press("Enter");
        tab.until(&format!("location.hash !== {first}"));
        // Deep in the output of a tool, which the list does not show.
        tab.eval("document.getElementById('search').select()");
        tab.call("Input.insertText", json!({"text": "41aa07b"}));
        tab.until("document.getElementById('count').textContent === '1 of 26 entries'");
        tab.eval("document.getElementById('search').select()");
        tab.call("Input.insertText", json!({"text": "nobody said this"}));
        tab.until("document.getElementById('count').textContent === '0 of 26 entries'");
        tab.press("Enter");
        tab.press("Escape");
        assert_eq!(count(tab), "22 of 26 entries");
        assert_eq!(tab.eval("document.getElementById('search').value"), "");
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn filters_select_entries() {
    with_tab("filters", |tab| {
        let page = sample();
        tab.go(&page.path, "");
        // In the list, and in the conversation with all branches unfolded.
        tab.eval("document.querySelectorAll('.branch').forEach(e => { e.open = true })");
        let visible =
            "[...document.querySelectorAll('.e')].filter(e => e.checkVisibility()).length";
        for (key, name, rows) in [
            ("2", "no-tools", 14),
            ("3", "user", 4),
            ("4", "labelled", 2),
            ("5", "all", 26),
            ("1", "default", 22),
        ] {
            tab.press(key);
            assert_eq!(tab.eval("document.documentElement.dataset.filter"), name);
            assert_eq!(tab.eval(&format!("{ROWS}.length")), rows, "{name}");
            assert_eq!(tab.eval(visible), rows, "{name}");
            let pressed = "document.querySelector('#filters [aria-pressed=true]').dataset.filter";
            assert_eq!(tab.eval(pressed), name);
        }
        tab.click("#filters [data-filter=user]");
        assert_eq!(count(tab), "4 of 26 entries");
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn link_opens_its_entry() {
    with_tab("links", |tab| {
        let page = sample();
        tab.go(&page.path, &format!("#entry-{LEFT}"));
        tab.until(&is_in_view(LEFT));
        tab.eval(&format!("location.hash = 'entry-{FIX}'"));
        tab.until(&is_in_view(FIX));
        // A link shows an entry even if a filter hides it.
        tab.press("3");
        let note = "document.querySelector('.note').id.slice(6)";
        let note = tab.eval(note).as_str().unwrap().to_owned();
        tab.eval(&format!("location.hash = 'entry-{note}'"));
        tab.until(&is_in_view(&note));
        for nonsense in ["entry-nobody", "entry-%", "entry-%22%3E%3Cscript%3E", "else"] {
            tab.eval(&format!("location.hash = '{nonsense}'"));
        }
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn keyboard_shortcuts_match_the_help() {
    with_tab("keys", |tab| {
        let page = sample();
        tab.go(&page.path, "");
        let at = |tab: &mut Tab| {
            tab.eval("document.querySelector('#rows [aria-current]')?.textContent ?? ''")
        };
        let focus = |tab: &mut Tab| tab.eval("document.activeElement.id");
        tab.press("j");
        assert_eq!(at(tab), "anthropic/claude-opus-4-8");
        let begun = focus(tab);
        assert!(begun.as_str().unwrap().starts_with("entry-"), "the keyboard goes on from there");
        tab.press("n");
        assert!(at(tab).as_str().unwrap().starts_with("The tide tables"));
        tab.press("n");
        assert!(at(tab).as_str().unwrap().starts_with("the fixYes, the first."));
        tab.press("p");
        tab.press("j");
        assert!(at(tab).as_str().unwrap().starts_with("An hour since Sunday"));
        tab.press("k");
        assert!(at(tab).as_str().unwrap().starts_with("The tide tables"));
        tab.press("G");
        tab.until("scrollY > 500");
        tab.press("g");
        tab.until("scrollY === 0");
        tab.press("?");
        assert_eq!(tab.eval("document.getElementById('help').open"), true);
        tab.press("j");
        tab.press("Escape");
        tab.until("!document.getElementById('help').open");
        tab.press("b");
        assert_eq!(tab.eval("document.getElementById('side').checkVisibility()"), false);
        tab.press("/");
        assert_eq!(tab.eval("document.activeElement.id"), "search");
        tab.press("ArrowDown");
        assert_eq!(tab.eval("document.activeElement.dataset.row"), "0");
        tab.press("ArrowDown");
        assert_eq!(tab.eval("document.activeElement.dataset.row"), "1");
        // The whole list is one tab stop for keyboard users.
        let stops = "[...document.querySelectorAll('#rows a')].filter(e => e.tabIndex === 0).map(e => e.dataset.row)";
        assert_eq!(tab.eval(stops), json!(["1"]));
        tab.press("End");
        assert_eq!(tab.eval("document.activeElement.dataset.row"), "21");
        assert_eq!(tab.eval(stops), json!(["21"]));
        tab.press("Home");
        assert_eq!(tab.eval("document.activeElement.dataset.row"), "0");
        tab.press("Enter");
        tab.until("document.activeElement.id.startsWith('entry-')");
        assert_eq!(focus(tab), tab.eval("location.hash.slice(1)"));
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}
