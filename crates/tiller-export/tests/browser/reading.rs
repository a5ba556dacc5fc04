//! Reading the page: folding, copying, enlarging, downloading, and all of it without scripts.

use std::time::{Duration, Instant};

use serde_json::json;

use super::chromium::with_tab;
use super::pages::sample;

#[test]
fn thinking_and_output_fold() {
    with_tab("folding", |tab| {
        let page = sample();
        tab.go(&page.path, "");
        let open = |selector: &str| format!("document.querySelectorAll('{selector}[open]').length");
        assert_eq!(tab.eval(&open(".think")), 0);
        tab.click(".think summary");
        assert_eq!(tab.eval(&open(".think")), 1);
        tab.press("t");
        assert_eq!(tab.eval(&open(".think")), 3);
        tab.press("t");
        assert_eq!(tab.eval(&open(".think")), 0);
        // A short output is unfolded, a long one is not.
        assert_eq!(tab.eval("document.querySelectorAll('.tool > details').length"), 7);
        assert_eq!(tab.eval(&open(".tool > details")), 5);
        tab.press("o");
        assert_eq!(tab.eval(&open(".tool > details")), 7);
        tab.click("#bar [data-do=tools]");
        assert_eq!(tab.eval(&open(".tool > details")), 0);
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn diffs_mark_added_and_removed_lines() {
    with_tab("diff", |tab| {
        let page = sample();
        tab.go(&page.path, "");
        let lines = |class: &str| format!("document.querySelectorAll('.diff .{class}').length");
        assert_eq!(tab.eval(&lines("add")), 2);
        assert_eq!(tab.eval(&lines("del")), 3);
        assert_eq!(tab.eval("document.querySelector('.diff .add i').textContent"), "17");
        // Not by colour alone.
        let sign = |class: &str| {
            format!(
                "getComputedStyle(document.querySelector('.diff .{class} i'), '::after').content"
            )
        };
        assert_eq!(tab.eval(&sign("add")), "\"+\"");
        assert_eq!(tab.eval(&sign("del")), "\"−\"");
        tab.eval("window.copied = []; navigator.clipboard.writeText = async (text) => { copied.push(text) }");
        tab.eval("document.querySelector('.diff').dispatchEvent(new Event('pointerover', {bubbles: true}))");
        tab.click(".diff > .copy");
        tab.until("copied.length === 1");
        let copied = tab.eval("copied[0]");
        let copied = copied.as_str().unwrap();
        assert!(copied.contains("\n-    let local = now"), "{copied}");
        assert!(copied.contains("\n+    let mut"), "{copied}");
        // Highlighted code has its original text.
        let code = "document.querySelector('.code[data-lang=rust]').textContent";
        assert!(
            tab.eval(code).as_str().unwrap().starts_with("let local = now + Duration::from_secs(")
        );
        assert_eq!(tab.eval("document.querySelector('td.right').textContent"), "+2 h");
    });
}

#[test]
fn images_can_be_enlarged_and_text_copied() {
    with_tab("copying", |tab| {
        let page = sample();
        tab.go(&page.path, "");
        tab.click("img.zoom");
        tab.until("document.getElementById('zoom').open");
        tab.until("document.querySelector('#zoom img').naturalWidth === 96");
        tab.press("Escape");
        tab.until("!document.getElementById('zoom').open");
        // By keyboard, too.
        tab.eval("document.querySelector('img.zoom').focus()");
        for key in ["Enter", " "] {
            tab.press(key);
            tab.until("document.getElementById('zoom').open");
            tab.press("Escape");
            tab.until("!document.getElementById('zoom').open");
        }
        tab.eval("window.copied = []; navigator.clipboard.writeText = async (text) => { copied.push(text) }");
        tab.eval("document.querySelector('.cmd').dispatchEvent(new Event('pointerover', {bubbles: true}))");
        tab.click(".cmd > .copy");
        tab.until("document.querySelector('.cmd > .copy').textContent === 'Copied'");
        tab.eval("document.querySelector('.user .md').dispatchEvent(new Event('pointerover', {bubbles: true}))");
        tab.click(".user header .copy");
        tab.until("copied.length === 2");
        assert_eq!(
            tab.eval("copied"),
            json!([
                "git log --oneline -5 -- src/tide.rs && wc -l src/tide.rs",
                "The tide tables are an hour off since Sunday. Can you find out why?\n\nThe port is Brest, \
                 the code is in src/tide.rs.",
            ])
        );
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn the_session_can_be_downloaded() {
    with_tab("download", |tab| {
        let page = sample();
        let dir = tempfile::tempdir().unwrap();
        tab.go(&page.path, "");
        let params = json!({"behavior": "allow", "downloadPath": dir.path()});
        tab.call("Browser.setDownloadBehavior", params);
        tab.click("#bar [data-do=download]");
        let file = dir.path().join("session.jsonl");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !file.exists() {
            assert!(Instant::now() < deadline, "there is no download");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), include_str!("../sample/session.jsonl"));
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn without_scripting_all_content_is_readable() {
    with_tab("no-script", |tab| {
        let page = sample();
        tab.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
        tab.go_without_waiting(&page.path, "");
        assert_eq!(tab.eval("document.documentElement.matches('.js')"), false);
        let text = tab.eval(
            "[...document.querySelectorAll('#page > *, noscript')].map(e => e.textContent).join()",
        );
        let text = text.as_str().unwrap();
        for said in [
            "Tide tables that do not lie",
            "Can you find out why?",
            "There it is.",
            "offset when shown",
            "running 1 test",
            "Another branch",
            "Smooth across the change",
            "$0.1168",
        ] {
            assert!(text.contains(said), "{said} is not in:\n{text}");
        }
        for needs_script in ["#side", "#bar"] {
            let visible = format!("document.querySelector('{needs_script}').checkVisibility()");
            assert_eq!(tab.eval(&visible), false, "{needs_script}");
        }
        // Folds use the browser's own element.
        tab.click(".branch > summary");
        tab.until("document.querySelector('.branch').open");
        tab.click(".think > summary");
        tab.until("document.querySelector('.think').open");
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}
