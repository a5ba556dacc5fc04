//! A hostile session.

use serde_json::{Value, json};

use super::chromium::with_tab;
use super::pages::{answer, page, session, user};

/// Texts that would call `harm()` if executed, for every place that shows text.
const TRICKS: &[&str] = &[
    "<script>harm()</script>",
    "</script><script>harm()</script>",
    "<!--<script>harm()//-->",
    "]]><script>harm()</script>",
    "<img src=x onerror=harm()>",
    "\" onmouseover=\"harm()\" x=\"",
    "' onfocus='harm()' autofocus='",
    "[x](javascript:harm())",
    "[x](JaVaScRiPt:harm()) <javascript:harm()>",
    "![x](javascript:harm()) ![x](http://127.0.0.1:9/p.png)",
    "[x](data:text/html,<script>harm()</script>)",
    "<iframe srcdoc='<script>parent.harm()</script>'></iframe>",
    "<svg><script>harm()</script></svg><math><style>",
    "<style>*{display:none}</style><link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "<base href=http://127.0.0.1:9/><meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "<form id=log><input name=children></form><a id=tree></a>",
    "$& $` $' $1 {{tree}} {{script}} ${harm()}",
    "a\u{0}b \u{202e}txet\u{202c} \u{2066}x\u{2069} \u{feff} \u{2028} \u{2029}",
    "```html\n</code></pre><script>harm()</script>\n```",
    "`</code><script>harm()</script>`",
    "| <script>harm()</script> |\n|--|\n| <img src=x onerror=harm()> |",
    "<textarea><title><noscript><plaintext>",
    "&lt;script&gt;harm()&lt;/script&gt;",
    "# <img src=x onerror=harm()>\n\n> <script>harm()</script>",
];

fn hostile() -> String {
    let mut messages: Vec<Value> = Vec::new();
    for trick in TRICKS {
        messages.push(user(trick));
        messages.push(answer(json!([
            {"type": "thinking", "thinking": trick},
            {"type": "text", "text": trick},
            {"type": "image", "data": trick, "mimeType": "image/png"},
            {"type": "image", "data": "AAAA", "mimeType": trick},
            {"type": "toolCall", "id": trick, "name": trick, "arguments": {*trick: trick}},
            {"type": "toolCall", "id": "b", "name": "bash", "arguments": {"command": trick}},
            {"type": "toolCall", "id": "w", "name": "write", "arguments": {"path": format!("{trick}.rs"), "content": trick}},
        ])));
        messages.push(json!({"role": "toolResult", "toolCallId": trick, "toolName": trick, "isError": true,
            "content": [{"type": "text", "text": trick}], "details": {"diff": format!("+1 {trick}\n-2 {trick}\n{trick}")},
            "timestamp": 1}));
        messages.push(
            json!({"role": "toolResult", "toolCallId": "b", "toolName": "bash", "isError": false,
            "content": [{"type": "text", "text": trick}], "timestamp": 1}),
        );
        messages.push(
            json!({"role": "bashExecution", "command": trick, "output": trick, "exitCode": 1,
            "cancelled": false, "truncated": false, "timestamp": 1}),
        );
        messages.push(json!({"role": "custom", "customType": trick, "content": trick, "display": true, "timestamp": 1}));
        messages.push(json!({"role": trick, "content": trick}));
    }
    let mut text = session(messages);
    for (at, trick) in TRICKS.iter().enumerate() {
        let parent = json!(trick);
        for entry in [
            json!({"type": "message", "id": format!("{trick}{at}"), "parentId": parent, "timestamp": trick, "message": user(trick)}),
            json!({"type": "label", "id": format!("l{at}"), "parentId": "e1", "timestamp": trick, "targetId": "e1", "label": trick}),
            json!({"type": "session_info", "id": format!("n{at}"), "parentId": "e2", "timestamp": trick, "name": trick}),
            json!({"type": "compaction", "id": format!("c{at}"), "parentId": "e2", "timestamp": trick, "summary": trick,
                "firstKeptEntryId": "e1", "tokensBefore": 5}),
            json!({"type": "model_change", "id": format!("m{at}"), "parentId": "e2", "timestamp": trick, "provider": trick, "modelId": trick}),
            json!({"type": "custom", "id": format!("x{at}"), "parentId": "e3", "timestamp": trick, "customType": trick, "data": {*trick: trick}}),
            json!({"type": trick, "id": format!("o{at}"), "parentId": "e3", "timestamp": trick, "anything": trick}),
        ] {
            text += &format!("{entry}\n");
        }
    }
    text
}

#[test]
fn hostile_session_cannot_run_code() {
    with_tab("hostile", |tab| {
        let page = page(&hostile());
        let watch = json!({"source": "window.harmed = 0; window.harm = () => { harmed++ }"});
        tab.call("Page.addScriptToEvaluateOnNewDocument", watch);
        tab.go(&page.path, "");
        tab.press("5");
        tab.press("t");
        tab.press("o");
        tab.eval("document.querySelectorAll('details').forEach(e => { e.open = true })");
        // Visit every entry.
        tab.eval("(async () => { for (const e of document.querySelectorAll('.e, a, img')) { \
            e.dispatchEvent(new Event('pointerover', {bubbles: true})); e.dispatchEvent(new Event('mouseover')); \
            e.focus?.() } })()");
        tab.press("/");
        tab.call("Input.insertText", json!({"text": "<script>harm()"}));
        tab.until("CSS.highlights.get('found')?.size > 20");
        for _ in 0..3 {
            tab.press("Enter");
        }
        assert_eq!(tab.eval("harmed"), 0);
        // Only our own elements exist.
        let alien = "[...document.querySelectorAll('script:not(#tree, #jsonl), iframe, object, embed, base, link, form:not(dialog form), \
            input:not(#search), textarea, svg script, math, noscript, [style*=url], meta[http-equiv=refresh]')].length";
        assert_eq!(tab.eval(alien), 1, "one script, the page's own");
        assert_eq!(tab.eval("document.querySelectorAll('style').length"), 1);
        let handlers = "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on')).length";
        assert_eq!(tab.eval(handlers), 0);
        let links = "[...new Set([...document.querySelectorAll('a[href]')].map(e => e.getAttribute('href').split(/[:#]/)[0]))]";
        assert_eq!(tab.eval(links), json!(["", "http"]));
        let pictures = "[...document.querySelectorAll('#log img')].filter(e => !e.src.startsWith('data:image/png;base64,')).length";
        assert_eq!(tab.eval(pictures), 0);
        // And all of the text is readable.
        let text = tab.eval("document.getElementById('log').textContent");
        let text = text.as_str().unwrap();
        for said in [
            "<script>harm()</script>",
            "]]><script>",
            "$& $` $' $1 {{tree}} {{script}} ${harm()}",
            "a␀b ⟨U+202E⟩txet⟨U+202C⟩",
        ] {
            assert!(text.contains(said), "{said}");
        }
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}
