//! Scripts in the manner of CommonJS: what they export, as far as that shows without running
//! them, and the module that stands for one of them where modules are imported.

use std::fmt::Write as _;

/// What a script seems to export. Rather too much than too little: a name that is not there is
/// `undefined` when it is looked at.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Exports {
    pub names: Vec<String>,
    /// Modules whose exports it passes on as its own.
    pub passed_on: Vec<String>,
}

/// The source of a module whose exports are those of the script with this id.
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

/// A name as it stands behind `as`: any word, or else a string.
pub(super) fn export_name(name: &str) -> String {
    match name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit()) {
        true => name.to_owned(),
        false => serde_json::Value::from(name).to_string(),
    }
}

/// Puts a script into the function it is the body of. No line moves.
pub(crate) fn wrap(code: &str) -> String {
    let hash_bang = if code.starts_with("#!") { "//" } else { "" };
    format!("(function(exports,require,module,__filename,__dirname){{{hash_bang}{code}\n}})")
}

/// Object literals that are looked at for names.
const LITERALS_MAX: usize = 20;
/// As far as the closing parenthesis of a call is looked for.
const ARGUMENT_MAX_BYTES: usize = 1 << 10;

/// Looks for what minifiers and compilers leave of exports.
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
                // Each of them may be as long as the rest of the file.
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

    /// The keys of an object literal whose opening brace has been passed.
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
                    // To the closing quote.
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
    fn exports_show() {
        check("exports.a = 1; module.exports.b = 2; exports['c-d'] = 3;", expect!["a b c | "]);
        check("module.exports = { x, y: { z: 1 }, 'w': f(1, 2), v() {} };", expect!["v w x y | "]);
        check(
            "Object.defineProperty(exports, \"q\", { get })\n__exportStar(require(\"./r\"), exports);",
            expect!["q | ./r"],
        );
        check("module.exports = require('./lib/index.js');", expect![" | ./lib/index.js"]);
    }

    #[test]
    fn a_script_of_nothing_but_exports_is_read_once() {
        let literals = exports(&"exports={a,".repeat(200_000));
        assert_eq!(literals.names, ["a", "exports"]);
        assert_eq!(exports(&"__exportStar(x".repeat(200_000)), Exports::default());
    }
}
