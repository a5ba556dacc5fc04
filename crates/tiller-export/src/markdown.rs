//! Renders Markdown as safe HTML: raw HTML is shown as text, links lead only to allowed schemes,
//! images are named but not fetched.

use pulldown_cmark::{
    Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd,
    TextMergeStream, html,
};

use crate::diff;
use crate::highlight::Colours;
use crate::text::{escape, visible};

/// A longer text is pasted data, and is shown as it is.
const MARKDOWN_MAX: usize = 256 * 1024;

/// How line breaks inside a paragraph are rendered.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Breaks {
    /// As in Markdown: as spaces.
    Soft,
    /// As typed: as line breaks.
    Kept,
}

pub(crate) fn markdown(text: &str, breaks: Breaks, colours: &mut Colours, out: &mut String) {
    let text = visible(text);
    if text.len() > MARKDOWN_MAX {
        out.push_str("<pre class=\"plain\">");
        escape(&text, out);
        return out.push_str("</pre>");
    }
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut tamed = SafeEvents {
        breaks,
        colours,
        events: Vec::new(),
        code: None,
        open: Vec::new(),
        columns: Vec::new(),
        column: 0,
        cell: "td",
    };
    // A URL may contain markup characters, which arrive as separate text events.
    for event in TextMergeStream::new(Parser::new_ext(&text, options)) {
        tamed.take(event);
    }
    lower_headings(&mut tamed.events);
    html::push_html(out, tamed.events.into_iter());
}

/// Events that are safe to write.
struct SafeEvents<'t, 'c> {
    breaks: Breaks,
    colours: &'c mut Colours,
    events: Vec<Event<'t>>,
    /// The language and the text of the current code block.
    code: Option<(String, String)>,
    /// The end tags of the open links and images.
    open: Vec<&'static str>,
    /// The alignment of the current table's columns, the next column, and its cell tag.
    columns: Vec<Alignment>,
    column: usize,
    cell: &'static str,
}

impl<'t> SafeEvents<'t, '_> {
    fn take(&mut self, event: Event<'t>) {
        match event {
            Event::Text(text) if self.code.is_some() => {
                if let Some((_, code)) = &mut self.code {
                    code.push_str(&text);
                }
            }
            Event::Text(text) if self.open.is_empty() && text.contains("://") => self.linked(&text),
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some((language, code)) = self.code.take() {
                    let mut html = String::new();
                    block(&language, &code, self.colours, &mut html);
                    self.html(html);
                }
            }
            Event::Start(Tag::HtmlBlock) => self.html("<p class=\"raw\">"),
            Event::End(TagEnd::HtmlBlock) => self.html("</p>\n"),
            // Raw HTML of the text is escaped. Our own never passes here.
            Event::Html(text) | Event::InlineHtml(text) => self.events.push(Event::Text(text)),
            Event::Start(Tag::Link { dest_url, .. }) => {
                self.link(&dest_url, "<span class=\"nolink\">")
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                self.link(&dest_url, "<span class=\"picture\">")
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                let end = self.open.pop().unwrap_or_default();
                self.inline(end);
            }
            Event::Start(Tag::Table(columns)) => {
                self.columns = columns;
                self.html("<div class=\"wide\"><table>");
            }
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                self.column = 0;
                self.cell = if matches!(event, Event::Start(Tag::TableHead)) { "th" } else { "td" };
                self.html("<tr>");
            }
            Event::Start(Tag::TableCell) => {
                // A class, because the page's content security policy forbids inline styles.
                let class = match self.columns.get(self.column) {
                    Some(Alignment::Right) => " class=\"right\"",
                    Some(Alignment::Center) => " class=\"middle\"",
                    _ => "",
                };
                self.column += 1;
                self.inline(format!("<{}{class}>", self.cell));
            }
            Event::End(TagEnd::TableCell) => self.inline(format!("</{}>", self.cell)),
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => self.html("</tr>\n"),
            Event::End(TagEnd::Table) => self.html("</table></div>\n"),
            Event::SoftBreak if self.breaks == Breaks::Kept => self.events.push(Event::HardBreak),
            Event::TaskListMarker(done) => {
                // The checkbox replaces the bullet.
                let item = self.events.iter_mut().rev().take(2);
                let mut item = item.filter(|event| matches!(event, Event::Start(Tag::Item)));
                if let Some(item) = item.next() {
                    *item = Event::Html("<li class=\"task\">".into());
                }
                self.inline(if done { "☑ " } else { "☐ " });
            }
            event => self.events.push(event),
        }
    }

    /// Text in which bare URLs become links.
    fn linked(&mut self, text: &str) {
        let (mut rest, mut from) = (text, 0);
        while let Some(at) = rest[from..].find("http").map(|at| from + at) {
            let len = address_len(&rest[at..]);
            if len == 0 {
                from = at + "http".len();
                continue;
            }
            let (before, address) = rest[..at + len].split_at(at);
            self.events.push(Event::Text(before.to_owned().into()));
            self.link(address, "");
            self.events.push(Event::Text(address.to_owned().into()));
            let end = self.open.pop().unwrap_or_default();
            self.inline(end);
            (rest, from) = (&rest[at + len..], 0);
        }
        self.events.push(Event::Text(rest.to_owned().into()));
    }

    fn link(&mut self, to: &str, dead: &'static str) {
        if is_safe_link(to) {
            let mut html = String::from("<a href=\"");
            escape(to, &mut html);
            html.push_str(if to.starts_with('#') {
                "\">"
            } else {
                "\" target=\"_blank\" rel=\"noopener noreferrer\">"
            });
            self.inline(html);
            self.open.push("</a>");
        } else {
            self.inline(dead);
            self.open.push("</span>");
        }
    }

    fn html(&mut self, html: impl Into<CowStr<'t>>) {
        self.events.push(Event::Html(html.into()));
    }

    fn inline(&mut self, html: impl Into<CowStr<'t>>) {
        self.events.push(Event::InlineHtml(html.into()));
    }
}

/// Code with its language, ready for a copy button.
pub(crate) fn block(language: &str, code: &str, colours: &mut Colours, out: &mut String) {
    let code = code.strip_suffix('\n').unwrap_or(code);
    let name = language.split([',', ' ', '{']).next().unwrap_or_default();
    out.push_str("<pre class=\"code\"");
    if !name.is_empty() {
        out.push_str(" data-lang=\"");
        escape(name, out);
        out.push('"');
    }
    out.push_str("><code>");
    if matches!(name, "diff" | "patch") {
        diff::unified(code, out);
    } else {
        colours.code(language, code, out);
    }
    out.push_str("</code></pre>");
}

/// The length of the URL at the beginning of a text, without the punctuation that usually follows
/// one in a sentence.
fn address_len(text: &str) -> usize {
    let schemes = ["https://", "http://"];
    let Some(scheme) = schemes.into_iter().find(|scheme| text.starts_with(scheme)) else {
        return 0;
    };
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '`'));
    let address = &text[..end.unwrap_or(text.len())];
    let has_opened = address.contains('(');
    let trails = |c: char| {
        matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | ']' | '}' | '…')
            || (c == ')' && !has_opened)
    };
    let len = address.trim_end_matches(trails).len();
    if len > scheme.len() { len } else { 0 }
}

/// An allow-list of URL schemes. Anything a browser could interpret differently is excluded.
fn is_safe_link(to: &str) -> bool {
    let begins = |scheme: &str| {
        to.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    to.starts_with('#') || ["http://", "https://", "mailto:"].into_iter().any(begins)
}

/// The page has its own headings above those of a message, so the highest becomes an `h3`.
fn lower_headings(events: &mut [Event<'_>]) {
    let level = |event: &Event<'_>| match event {
        Event::Start(Tag::Heading { level, .. }) => Some(*level as usize),
        _ => None,
    };
    let Some(highest) = events.iter().filter_map(level).min() else { return };
    let lowered = |level: HeadingLevel| {
        let level = (level as usize + 3 - highest).min(6);
        HeadingLevel::try_from(level).unwrap_or(HeadingLevel::H6)
    };
    for event in events {
        match event {
            Event::Start(Tag::Heading { level, .. }) | Event::End(TagEnd::Heading(level)) => {
                *level = lowered(*level);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let mut out = String::new();
        markdown(text, Breaks::Soft, &mut Colours::new(), &mut out);
        expected.assert_eq(&out);
    }

    #[test]
    fn html_is_text() {
        check(
            "a <script>alert(1)</script> b",
            expect![[r#"
            <p>a &lt;script&gt;alert(1)&lt;/script&gt; b</p>
        "#]],
        );
        check(
            "<script>\nalert(1)\n</script>\n\n<img src=x onerror=alert(1)>",
            expect![[r#"
                <p class="raw">&lt;script&gt;
                alert(1)
                &lt;/script&gt;
                </p>
                <p class="raw">&lt;img src=x onerror=alert(1)&gt;</p>
            "#]],
        );
        check(
            "<!-- c --> ]]> &lt; &#60; $& </script>",
            expect![[r#"
                <p class="raw">&lt;!-- c --&gt; ]]&gt; &amp;lt; &amp;#60; $&amp; &lt;/script&gt;</p>
            "#]],
        );
        check(
            "`<b>` and\n\n    <i>indented</i>",
            expect![[r#"
            <p><code>&lt;b&gt;</code> and</p>
            <pre class="code"><code>&lt;i&gt;indented&lt;/i&gt;</code></pre>"#]],
        );
    }

    #[test]
    fn links_lead_to_safe_places() {
        check(
            "[a](https://x.org/?a=1&b=\"2\") <https://y.org> [m](mailto:a@b.c) [h](#entry-1)",
            expect![[r##"
                <p><a href="https://x.org/?a=1&amp;b=&quot;2&quot;" target="_blank" rel="noopener noreferrer">a</a> <a href="https://y.org" target="_blank" rel="noopener noreferrer">https://y.org</a> <a href="mailto:a@b.c" target="_blank" rel="noopener noreferrer">m</a> <a href="#entry-1">h</a></p>
            "##]],
        );
        check(
            "See https://x.org/a_b_c?d=1&e=2, (http://y.org/z) and [https://z.org](https://w.org). `http://code` https:// httpd",
            expect![[r#"
                <p>See <a href="https://x.org/a_b_c?d=1&amp;e=2" target="_blank" rel="noopener noreferrer">https://x.org/a_b_c?d=1&amp;e=2</a>, (<a href="http://y.org/z" target="_blank" rel="noopener noreferrer">http://y.org/z</a>) and <a href="https://w.org" target="_blank" rel="noopener noreferrer">https://z.org</a>. <code>http://code</code> https:// httpd</p>
            "#]],
        );
        check(
            "[a](javascript:alert(1)) [b](JaVaScRiPt&colon;x) [c](data:text/html,x) [d](src/main.rs) [e](//x.org)",
            expect![[r#"
                <p><span class="nolink">a</span> <span class="nolink">b</span> <span class="nolink">c</span> <span class="nolink">d</span> <span class="nolink">e</span></p>
            "#]],
        );
        check(
            "[a](\tjavascript:x) [b](vbscript:x) [c](java&#10;script:x) [d](https:x)",
            expect![[r#"
            <p><span class="nolink">a</span> <span class="nolink">b</span> <span class="nolink">c</span> <span class="nolink">d</span></p>
        "#]],
        );
        check(
            "![alt *text*](https://x.org/p.png) ![y](javascript:x)",
            expect![[r#"
            <p><a href="https://x.org/p.png" target="_blank" rel="noopener noreferrer">alt <em>text</em></a> <span class="picture">y</span></p>
        "#]],
        );
        check(
            "[a]: javascript:alert(1)\n\n[a] <javascript:alert(1)>",
            expect![[r#"
            <p><span class="nolink">a</span> <span class="nolink">javascript:alert(1)</span></p>
        "#]],
        );
    }

    #[test]
    fn structure_is_kept() {
        check(
            "# One\n## Two {#id}\n- [x] done\n- [ ] open\n\n| a | b |\n|--|:-:|\n| 1 | <2> |",
            expect![[r#"
                <h3>One</h3>
                <h4>Two {#id}</h4>
                <ul>
                <li class="task">☑ done</li>
                <li class="task">☐ open</li>
                </ul>
                <div class="wide"><table><tr><th>a</th><th class="middle">b</th></tr>
                <tr><td>1</td><td class="middle">&lt;2&gt;</td></tr>
                </table></div>
            "#]],
        );
        check(
            "```js title=\"<x>\"\nlet a = `</code>`;\n```",
            expect![[
                r#"<pre class="code" data-lang="js"><code><span class="k">let</span> a = <span class="s">`&lt;/code&gt;`</span>;</code></pre>"#
            ]],
        );
        check(
            "```diff\n-old\n+new <b>\n@@ x\n```",
            expect![[r#"
            <pre class="code" data-lang="diff"><code><span class="del">-old
            </span><span class="add">+new &lt;b&gt;
            </span><span class="hunk">@@ x
            </span></code></pre>"#]],
        );
        check(
            "one\ntwo",
            expect![[r#"
            <p>one
            two</p>
        "#]],
        );
        check(
            "```\nnever closed",
            expect![[r#"<pre class="code"><code>never closed</code></pre>"#]],
        );
    }

    #[test]
    fn line_ends_of_people_are_kept() {
        let mut out = String::new();
        markdown("one\ntwo", Breaks::Kept, &mut Colours::none(), &mut out);
        assert_eq!(out, "<p>one<br />\ntwo</p>\n");
    }

    #[test]
    fn nothing_takes_long() {
        let started = std::time::Instant::now();
        for text in [
            "[".repeat(100_000),
            "*a_ ".repeat(50_000),
            "> ".repeat(50_000),
            "`".repeat(100_000),
            "<a ".repeat(50_000),
            "![".repeat(50_000),
            "| a ".repeat(30_000),
            "a".repeat(1_000_000),
            "- ".repeat(20_000),
            "&".repeat(100_000),
            "[a](".repeat(30_000),
            "http://a ".repeat(25_000),
            "http http://. ".repeat(15_000),
        ] {
            let mut out = String::new();
            markdown(&text, Breaks::Soft, &mut Colours::new(), &mut out);
        }
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }
}
