//! CommonJS scripts: which names they export, as far as the source shows it, and the facade module
//! through which other modules import them.

use std::fmt::Write as _;

/// The names a script seems to export. Reports too many rather than too few: a name that does not
/// exist is `undefined` when it is used.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Exports {
    pub names: Vec<String>,
    /// Modules that it re-exports.
    pub passed_on: Vec<String>,
}

/// The source of a module that exports what the script with this id exports.
pub(super) fn facade(id: &str, mut names: Vec<String>, as_node: bool) -> String {
    names.retain(|name| name != "default" && name != "module.exports" && name != "__proto__");
    names.sort();
    names.dedup();
    let id = serde_json::Value::from(id);
    let mut source = format!(
        "import{{runScript}}from\"tiller:require\";const all=runScript({id});\
         export default {};",
        if as_node { "all" } else { "all?.__esModule&&\"default\" in all?all.default:all" }
    );
    for (place, name) in names.iter().enumerate() {
        let key = serde_json::Value::from(name.as_str());
        let name = export_name(name);
        write!(source, "const $${place}=all?.[{key}];export{{$${place} as {name}}};").ok();
    }
    source
}

/// A name as it is written after `as`: an identifier, or else a string literal.
pub(super) fn export_name(name: &str) -> String {
    if name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit()) {
        name.to_owned()
    } else {
        serde_json::Value::from(name).to_string()
    }
}

/// Wraps a script in its function. Line numbers stay the same.
pub(crate) fn wrap(code: &str) -> String {
    let hash_bang = if code.starts_with("#!") { "//" } else { "" };
    format!("(function(exports,require,module,__filename,__dirname){{{hash_bang}{code}\n}})")
}

/// How many object literals are searched for keys.
const LITERALS_MAX: usize = 20;
/// How far the closing parenthesis of a call is searched.
const ARGUMENT_MAX_BYTES: usize = 1 << 10;

/// Searches for the export patterns that compilers and minifiers write.
pub(crate) fn exports(code: &str) -> Exports {
    let mut found = Exports::default();
    let mut literals = 0;
    for (place, _) in code.match_indices("exports") {
        let before = code[..place].trim_end();
        let after = &code[place + "exports".len()..];
        if let Some(rest) = after.strip_prefix('.') {
            found.name(word(rest));
        } else if let Some(rest) = after.strip_prefix("[\"").or(after.strip_prefix("['")) {
            found.name(word(rest));
        } else if before.ends_with("defineProperty(") {
            let rest = after.trim_start().strip_prefix(',').unwrap_or_default().trim_start();
            found.name(word(rest.trim_start_matches(['"', '\''])));
        } else if let Some(rest) = after.trim_start().strip_prefix('=') {
            let rest = rest.trim_start();
            match rest.strip_prefix('{') {
                // Bounded, because each literal may be as long as the rest of the file.
                Some(_) if literals >= LITERALS_MAX => (),
                Some(body) => {
                    literals += 1;
                    found.keys(body);
                }
                None => found.passed_on.extend(required(rest)),
            }
        }
    }
    for marker in ["__exportStar(", "__reExport(", "__export("] {
        for (place, _) in code.match_indices(marker) {
            let rest = &code.as_bytes()[place + marker.len()..];
            let rest = &rest[..rest.len().min(ARGUMENT_MAX_BYTES)];
            let rest = String::from_utf8_lossy(rest);
            let rest = rest.split(')').next().unwrap_or_default();
            if let Some(place) = rest.find("require(") {
                found.passed_on.extend(required(&format!("{})", &rest[place..])));
            }
        }
    }
    found.names.sort();
    found.names.dedup();
    found
}

impl Exports {
    fn name(&mut self, name: &str) {
        if !name.is_empty() {
            self.names.push(name.to_owned());
        }
    }

    /// Collects the keys of an object literal, starting after its opening brace.
    fn keys(&mut self, body: &str) {
        let mut depth = 0;
        let mut at_key = true;
        let mut chars = body.char_indices();
        while let Some((place, c)) = chars.next() {
            match c {
                '{' | '(' | '[' => depth += 1,
                '}' if depth == 0 => return,
                '}' | ')' | ']' => depth -= 1,
                ',' if depth == 0 => at_key = true,
                c if c.is_whitespace() => (),
                '"' | '\'' | '`' => {
                    if at_key && depth == 0 {
                        self.name(word(&body[place + 1..]));
                    }
                    at_key = false;
                    // Skips to the closing quote.
                    while let Some((_, inner)) = chars.next() {
                        match inner {
                            '\\' => drop(chars.next()),
                            inner if inner == c => break,
                            _ => (),
                        }
                    }
                }
                _ => {
                    if at_key && depth == 0 {
                        self.name(word(&body[place..]));
                    }
                    at_key = false;
                }
            }
        }
    }
}

fn required(text: &str) -> Option<String> {
    let text = text.trim_start().strip_prefix("require(")?.trim_start();
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    text[1..].split(quote).next().map(str::to_owned)
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    &text[..end]
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(code: &str, expect: Expect) {
        let found = exports(code);
        expect.assert_eq(&format!("{} | {}", found.names.join(" "), found.passed_on.join(" ")));
    }

    #[test]
    fn exports_are_found_in_scripts() {
        check("exports.a = 1; module.exports.b = 2; exports['c-d'] = 3;", expect!["a b c | "]);
        check("module.exports = { x, y: { z: 1 }, 'w': f(1, 2), v() {} };", expect!["v w x y | "]);
        check(
            "Object.defineProperty(exports, \"q\", { get })\n__exportStar(require(\"./r\"), exports);",
            expect!["q | ./r"],
        );
        check("module.exports = require('./lib/index.js');", expect![" | ./lib/index.js"]);
    }

    #[test]
    fn scanning_exports_is_linear() {
        let literals = exports(&"exports={a,".repeat(200_000));
        assert_eq!(literals.names, ["a", "exports"]);
        assert_eq!(exports(&"__exportStar(x".repeat(200_000)), Exports::default());
    }
}
