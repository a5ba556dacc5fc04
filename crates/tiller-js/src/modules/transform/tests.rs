use expect_test::{Expect, expect};

use super::*;

fn check(path: &str, source: &str, expect: Expect) {
    let shown = match transform(Path::new(path), source, None) {
        Err(error) => error,
        Ok(unit) => {
            let mut shown = format!(
                "{}\n{}",
                if unit.is_script { "script" } else { "module" },
                unit.code.trim_end()
            );
            for import in &unit.imports {
                let whole = if import.whole { " *" } else { "" };
                shown += &format!("\n<- {}: {}{whole}", import.from, import.names.join(" "));
            }
            if !unit.exports.is_empty() || !unit.stars.is_empty() {
                shown += &format!("\n-> {} * {}", unit.exports.join(" "), unit.stars.join(" "));
            }
            shown
        }
    };
    expect.assert_eq(&shown);
}

#[test]
fn types_and_type_imports_are_removed() {
    check(
        "a.ts",
        "import { Api, value } from 'x';\nimport type { T } from 'y';\nexport default function (pi: Api): void { value(pi as any); }\n",
        expect![[r#"
            module
            import { value } from "x";
            export default function(pi) {
            	value(pi);
            }
            <- x: value
            -> default * "#]],
    );
}

#[test]
fn enums_and_parameter_properties_are_transformed() {
    check(
        "a.ts",
        "export enum E { A, B = 'b' }\nexport class C { constructor(private x: number) {} }\nnamespace N { export const y = 1 }\nexport const { p, q: [r] } = N as any;\n",
        expect![[r#"
            module
            export let E = /* @__PURE__ */ function(E) {
            	E[E["A"] = 0] = "A";
            	E["B"] = "b";
            	return E;
            }({});
            export class C {
            	x;
            	constructor(x) {
            		this.x = x;
            	}
            }
            let N;
            (function(_N) {
            	const y = _N.y = 1;
            })(N || (N = {}));
            export const { p, q: [r] } = N;
            -> E C p r * "#]],
    );
}

#[test]
fn imports_and_exports_are_listed() {
    check(
        "a.js",
        "import d, * as all from 'a';\nimport { x as y, 'odd name' as z } from 'b';\nimport 'c';\nexport * from 'd';\nexport * as e from 'e';\nexport { f as g, default } from 'f';\nexport { y };\n",
        expect![[r#"
            module
            import d, * as all from 'a';
            import { x as y, 'odd name' as z } from 'b';
            import 'c';
            export * from 'd';
            export * as e from 'e';
            export { f as g, default } from 'f';
            export { y };
            <- a: default *
            <- b: x odd name
            <- c: 
            <- d:  *
            <- e:  *
            <- f: f default
            -> e g default y * d"#]],
    );
}

#[test]
fn scripts() {
    check(
        "a.js",
        "const a = require('a');\nmodule.exports = { a };\n",
        expect![[r#"
            script
            const a = require('a');
            module.exports = { a };
            -> a * "#]],
    );
    check(
        "a.js",
        "if (x) return;\nexports.a = 010;\n",
        expect![[r#"
            script
            if (x) return;
            exports.a = 010;
            -> a * "#]],
    );
}

#[test]
fn module_syntax_overrides_package_type() {
    let unit = transform(Path::new("a.ts"), "import { x } from 'y';\nexport { x };\n", Some(false));
    assert!(!unit.unwrap().is_script);
    let unit = transform(Path::new("a.js"), "exports.x = 1;\n", Some(false));
    assert!(unit.unwrap().is_script);
}

#[test]
fn module_may_use_script_globals() {
    check(
        "a.ts",
        "import x from 'x';\nconst y = require('y');\nexport const z = [x, y, __dirname];\nfunction f(require: any) { return require; }\n",
        expect![[r#"
            module
            import{scopeOf as $scopeOf}from"tiller:require";const{require,__dirname}=$scopeOf(import.meta);import x from "x";
            const y = require("y");
            export const z = [
            	x,
            	y,
            	__dirname
            ];
            function f(require) {
            	return require;
            }
            <- x: default
            <- tiller:require: scopeOf
            -> z * "#]],
    );
}

#[test]
fn syntax_error_has_a_position() {
    check("dir/a.ts", "const a = 1;\nconst b = ;\n", expect!["dir/a.ts:2:11: Unexpected token"]);
}

#[test]
fn positions_map_to_the_authors_source() {
    let source = "interface A {\n  x: number;\n}\n\nexport function f(a: A) {\n  throw new Error(String(a.x));\n}\n";
    let code = transform(Path::new("a.ts"), source, None).unwrap().code;
    let line = code.lines().position(|line| line.contains("throw")).unwrap() as u32 + 1;
    assert_eq!(line, 2);
    assert_eq!(original_position(Path::new("a.ts"), source, None, line, 2), Some((6, 3)));
}
