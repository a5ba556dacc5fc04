//! CommonJS scripts: which names they export, as far as the source shows it, and the facade module
//! through which other modules import them.

use std::fmt::Write as _;

use oxc::ast::ast::{
    Argument, AssignmentExpression, AssignmentTarget, CallExpression, Expression, ObjectExpression,
    ObjectPropertyKind, Program,
};
use oxc::ast_visit::{Visit, walk};

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

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// The names a script seems to export: those in the patterns that authors and compilers write.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Exports {
    pub names: Vec<String>,
    /// Modules that it re-exports.
    pub stars: Vec<String>,
}

impl Exports {
    pub(super) fn read(program: &Program<'_>) -> Exports {
        let mut exports = Exports::default();
        exports.visit_program(program);
        exports
    }

    /// `module.exports = value`.
    fn value(&mut self, value: &Expression<'_>) {
        match value.without_parentheses() {
            Expression::ObjectExpression(object) => self.keys(object),
            value => self.stars.extend(required(value)),
        }
    }

    fn keys(&mut self, object: &ObjectExpression<'_>) {
        for property in &object.properties {
            match property {
                ObjectPropertyKind::ObjectProperty(property) => {
                    self.names.extend(property.key.static_name().map(Into::into));
                }
                ObjectPropertyKind::SpreadProperty(spread) => {
                    self.stars.extend(required(&spread.argument));
                }
            }
        }
    }
}

/// Compilers' functions that re-export a module.
const STAR_FUNCTIONS: [&str; 3] = ["__exportStar", "__reExport", "__export"];

impl<'a> Visit<'a> for Exports {
    fn visit_assignment_expression(&mut self, assignment: &AssignmentExpression<'a>) {
        match &assignment.left {
            AssignmentTarget::StaticMemberExpression(member) if is_exports(&member.object) => {
                self.names.push(member.property.name.to_string());
            }
            AssignmentTarget::ComputedMemberExpression(member) if is_exports(&member.object) => {
                if let Expression::StringLiteral(name) = &member.expression {
                    self.names.push(name.value.to_string());
                }
            }
            AssignmentTarget::StaticMemberExpression(member)
                if member.property.name == "exports" =>
            {
                self.value(&assignment.right);
            }
            AssignmentTarget::AssignmentTargetIdentifier(name) if name.name == "exports" => {
                self.value(&assignment.right);
            }
            _ => (),
        }
        walk::walk_assignment_expression(self, assignment);
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        let mut arguments = call.arguments.iter().filter_map(Argument::as_expression);
        if called(call).is_some_and(|name| STAR_FUNCTIONS.contains(&name)) {
            self.stars.extend(arguments.clone().filter_map(required));
        }
        if arguments.next().is_some_and(is_exports) {
            match arguments.next() {
                // `Object.defineProperty(exports, "name", …)`
                Some(Expression::StringLiteral(name)) => self.names.push(name.value.to_string()),
                // `__export(exports, { name: … })`
                Some(Expression::ObjectExpression(object)) => self.keys(object),
                _ => (),
            }
        }
        walk::walk_call_expression(self, call);
    }
}

/// Whether this is `exports` or `module.exports`.
fn is_exports(expression: &Expression<'_>) -> bool {
    match expression {
        Expression::Identifier(name) => name.name == "exports",
        Expression::StaticMemberExpression(member) => member.property.name == "exports",
        _ => false,
    }
}

fn called<'c>(call: &'c CallExpression<'_>) -> Option<&'c str> {
    match &call.callee {
        Expression::Identifier(name) => Some(&name.name),
        Expression::StaticMemberExpression(member) => Some(&member.property.name),
        _ => None,
    }
}

/// The name in `require("name")`, also inside a compiler's call: `__toESM(require("name"))`.
fn required(expression: &Expression<'_>) -> Option<String> {
    let Expression::CallExpression(call) = expression else { return None };
    match call.arguments.first()?.as_expression()? {
        Expression::StringLiteral(name) => {
            (called(call) == Some("require")).then(|| name.value.to_string())
        }
        argument => required(argument),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use crate::modules::transform::transform;

    fn check(code: &str, expect: Expect) {
        let unit = transform(Path::new("/script.cjs"), code, Some(false)).unwrap();
        expect.assert_eq(&format!("{} | {}", unit.exports.join(" "), unit.stars.join(" ")));
    }

    #[test]
    fn exports_are_found_in_scripts() {
        check("exports.a = 1; module.exports.b = 2; exports['c-d'] = 3;", expect!["a b c-d | "]);
        check(
            "module.exports = { x, y: { z: 1 }, 'w': f(1, 2), v() {}, ...require('./u') };",
            expect!["x y w v | ./u"],
        );
        check(
            "Object.defineProperty(exports, \"q\", { get })\n__exportStar(require(\"./r\"), exports);",
            expect!["q | ./r"],
        );
        check("module.exports = require('./lib/index.js');", expect![" | ./lib/index.js"]);
        check(
            "exports.a = exports.b = void 0; 0 && (module.exports = { c });",
            expect!["a b c | "],
        );
        check("tslib_1.__exportStar(__toESM(require('./a')), module.exports);", expect![" | ./a"]);
        check(
            "// exports.no = 1\nconst text = 'exports.never = 1'; read(exports.only);",
            expect![" | "],
        );
    }
}
