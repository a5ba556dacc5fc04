//! Syntax highlighting: spans with the classes that `style.css` defines.
//!
//! The work is bounded. A block beyond [`BLOCK_MAX`] and a line beyond [`LINE_MAX`] stay plain, and
//! so does everything after the page's budget is spent, so that no session makes an export slow.

use std::collections::HashMap;

use synoptic::{Highlighter, TokOpt};

use crate::text::escape;

const BLOCK_MAX: usize = 32 * 1024;
const LINE_MAX: usize = 1000;
/// About half a second of work.
const PAGE_MAX: usize = 1024 * 1024;

pub(crate) struct Colours {
    /// By language; building one takes milliseconds.
    known: HashMap<&'static str, Option<Highlighter>>,
    left: usize,
}

impl Colours {
    pub(crate) fn new() -> Colours {
        Colours { known: HashMap::new(), left: PAGE_MAX }
    }

    /// Without highlighting.
    pub(crate) fn none() -> Colours {
        Colours { known: HashMap::new(), left: 0 }
    }

    /// Code as HTML. The language is the text after a fence, or a file extension.
    pub(crate) fn code(&mut self, language: &str, code: &str, out: &mut String) {
        let wanted = extension(language).filter(|_| code.len() <= BLOCK_MAX.min(self.left));
        let Some(highlighter) = wanted.and_then(|extension| self.highlighter(extension)) else {
            return escape(code, out);
        };
        // A line that is too long is skipped, so that a quote in it opens nothing.
        let shown =
            |line: &str| if line.len() > LINE_MAX { String::new() } else { line.to_owned() };
        let lines: Vec<String> = code.split('\n').map(shown).collect();
        highlighter.run(&lines);
        for (number, original) in code.split('\n').enumerate() {
            if number > 0 {
                out.push('\n');
            }
            let tokens = highlighter.line(number, &lines[number]);
            line(original, &tokens, out);
        }
        self.left -= code.len();
    }

    fn highlighter(&mut self, extension: &'static str) -> Option<&mut Highlighter> {
        // With a tab width of one, output and input have the same length.
        let known = self.known.entry(extension);
        known.or_insert_with(|| synoptic::from_extension(extension, 1)).as_mut()
    }
}

/// Applies the classes to the original line; the tokens only give the lengths.
fn line(original: &str, tokens: &[TokOpt], out: &mut String) {
    let lengths = tokens.iter().map(|token| token.text().len()).sum::<usize>();
    if lengths != original.len() {
        return escape(original, out);
    }
    let mut rest = original;
    for token in tokens {
        let Some((piece, after)) = rest.split_at_checked(token.text().len()) else {
            return escape(rest, out);
        };
        rest = after;
        match token {
            TokOpt::Some(_, name) if !class(name).is_empty() => {
                out.push_str("<span class=\"");
                out.push_str(class(name));
                out.push_str("\">");
                escape(piece, out);
                out.push_str("</span>");
            }
            _ => escape(piece, out),
        }
    }
}

fn class(name: &str) -> &'static str {
    match name {
        "keyword" | "kw" | "tag" => "k",
        "string" | "character" | "insertion" => "s",
        "comment" | "quote" => "c",
        "digit" | "boolean" | "math" => "n",
        "function" | "macros" | "heading" | "header" => "f",
        "struct" | "type" | "key" | "namespace" | "table" => "t",
        "attribute" | "link" | "image" => "a",
        "deletion" => "d",
        _ => "",
    }
}

/// The file extension by which the highlighter knows a language.
fn extension(language: &str) -> Option<&'static str> {
    // A fence may have more: `rust,ignore`, `js {1,3}`, `ts title="x"`.
    let name = language.split([',', ' ', '{', ':']).next().unwrap_or_default();
    Some(match name.to_ascii_lowercase().as_str() {
        "rs" | "rust" => "rs",
        "py" | "pyi" | "pyw" | "python" | "python3" => "py",
        "js" | "mjs" | "cjs" | "jsx" | "javascript" | "node" => "js",
        "ts" | "mts" | "cts" | "tsx" | "typescript" => "ts",
        "json" | "jsonc" | "json5" | "jsonl" => "json",
        "sh" | "bash" | "zsh" | "shell" | "console" | "shellsession" | "ksh" => "sh",
        "go" | "golang" => "go",
        "c" | "h" => "c",
        "cpp" | "cc" | "cxx" | "c++" | "hpp" | "hh" => "cpp",
        "cs" | "csharp" | "c#" => "cs",
        "java" => "java",
        "kt" | "kts" | "kotlin" => "kt",
        "swift" => "swift",
        "rb" | "ruby" => "rb",
        "php" => "php",
        "lua" => "lua",
        "r" => "r",
        "dart" => "dart",
        "scala" | "sc" => "scala",
        "hs" | "haskell" => "hs",
        "css" | "scss" | "less" => "css",
        "html" | "htm" | "xhtml" | "vue" | "svelte" => "html",
        "xml" | "svg" | "plist" | "xsd" => "xml",
        "toml" | "ini" | "cfg" | "conf" => "toml",
        "yaml" | "yml" => "yaml",
        "sql" => "sql",
        "tex" | "latex" => "tex",
        "asm" | "s" => "asm",
        "nu" => "nu",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(language: &str, code: &str, expected: Expect) {
        let mut out = String::new();
        Colours::new().code(language, code, &mut out);
        expected.assert_eq(&out);
    }

    #[test]
    fn code_gets_classes() {
        check(
            "rust,ignore",
            "fn main() { // <b>\n\tlet x = \"a&b\";\n}",
            expect![[
                r#"<span class="k">fn</span> <span class="f">main</span>() { <span class="c">// &lt;b&gt;</span>
	<span class="k">let</span> x = <span class="s">&quot;a&amp;b&quot;</span>;
}"#
            ]],
        );
        check(
            "py",
            "def f(): return 1",
            expect![[
                r#"<span class="k">def</span> <span class="f">f</span>(): <span class="k">return</span> <span class="n">1</span>"#
            ]],
        );
        check("nobody", "fn <x>", expect!["fn &lt;x&gt;"]);
    }

    /// Text content is preserved and escaped, whatever the input.
    #[test]
    fn the_text_is_what_it_was() {
        let text = "let a = \"<i>\";\t'\\'' `${<b>}` /* 漢字 😀 e\u{301} */ # é\n\0\u{200d}\"\"\"<x y='z'>\n\\\\\\";
        let mut colours = Colours::new();
        for language in [
            "rs", "py", "js", "ts", "json", "sh", "go", "c", "cpp", "cs", "java", "kt", "swift",
            "rb", "php", "lua", "r", "dart", "scala", "hs", "css", "html", "xml", "toml", "yaml",
            "sql", "tex", "asm", "nu",
        ] {
            let mut out = String::new();
            colours.code(language, text, &mut out);
            let mut plain = String::new();
            let mut rest = out.as_str();
            while let Some((before, tag)) = rest.split_once('<') {
                plain.push_str(before);
                let (tag, after) = tag.split_once('>').unwrap();
                assert!(tag == "/span" || tag.starts_with("span class=\""), "{language}: {tag}");
                rest = after;
            }
            plain.push_str(rest);
            let mut expected = String::new();
            escape(text, &mut expected);
            assert_eq!(plain, expected, "{language}");
        }
    }

    #[test]
    fn the_work_has_bounds() {
        let long_line = format!("let x = 1; // {}", "a".repeat(LINE_MAX));
        let mut colours = Colours::new();
        let mut out = String::new();
        colours.code("rs", &long_line, &mut out);
        assert_eq!(out, long_line);
        let block = "let x = 1;\n".repeat(BLOCK_MAX / 11 + 1);
        out.clear();
        colours.code("rs", &block, &mut out);
        assert_eq!(out, block);
        let mut poor = Colours { left: 5, ..Colours::new() };
        out.clear();
        poor.code("rs", "let x;", &mut out);
        assert_eq!(out, "let x;");
    }
}
