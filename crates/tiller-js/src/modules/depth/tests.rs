use super::super::transform;
use super::*;

/// A source that is `n` levels deep, for each construct that nests.
fn nested(n: usize) -> Vec<(&'static str, &'static str, String)> {
    let around = |open: &str, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(n), close.repeat(n))
    };
    vec![
        ("parentheses", "js", around("(", "1", ")")),
        ("arrays", "js", around("[", "", "]")),
        ("objects", "js", format!("x = {}", around("{a:", "1", "}"))),
        ("blocks", "js", around("{", "", "}")),
        ("functions", "js", around("function f(){", "", "}")),
        ("calls in calls", "js", around("f(", "", ")")),
        ("closers in strings", "js", around("(\")\",", "1", ")")),
        ("closers in comments", "js", around("(/*)*/", "1", ")")),
        ("closers in regular expressions", "js", around("(/)/,", "1", ")")),
        ("closers in templates", "js", around("(`)`,", "1", ")")),
        ("quotes in regular expressions behind a block", "js", around("{}/\"/;[\"", "", "\"]")),
        ("quotes in regular expressions behind a line", "js", around("var x\n/\"/;(\"", "", "\")")),
        ("comments of scripts", "js", around("<!-- `\n(", "1", ")")),
        ("templates", "js", around("`${", "1", "}`")),
        ("not", "js", around("!", "1", "")),
        ("minus", "js", around("- ", "1", "")),
        ("typeof", "js", around("typeof ", "1", "")),
        ("typeof in lines", "js", around("typeof\n", "1", "")),
        ("new", "js", around("new ", "X", "")),
        ("arrows", "js", around("a=>", "1", "")),
        ("conditions", "js", around("a?b:", "1", "")),
        ("assignments", "js", around("a=", "1", "")),
        ("powers", "js", around("a**", "1", "")),
        ("sums", "js", around("a+", "1", "")),
        ("members", "js", format!("a{}", ".b".repeat(n))),
        ("calls", "js", format!("a{}", "()".repeat(n))),
        ("templates with tags", "js", format!("a{}", "``".repeat(n))),
        ("if", "js", around("if(a)", ";", "")),
        ("else if", "js", around("if(a);else ", ";", "")),
        ("else if with commas", "js", around("if(a)b,c\nelse ", ";", "")),
        ("else if with blocks", "js", around("if(a){}else ", "{}", "")),
        ("loops", "js", around("for(;;)", ";", "")),
        ("do", "js", around("do ", ";", "while(0);")),
        ("labels", "js", (0..n).map(|n| format!("l{n}:")).collect::<String>() + ";"),
        ("classes", "js", around("class extends ", "X", "{}").replacen("class", "x = class", 1)),
        ("patterns", "js", format!("var {} = 1", around("[", "a", "]"))),
        ("types", "ts", format!("type A = {}", around("B<", "C", ">"))),
        ("types with commas", "ts", format!("type A = {}", around("B<C,", "C", ">"))),
        ("types of keys", "ts", format!("type A = {}", around("keyof ", "C", ""))),
        ("types in lines", "ts", format!("type A = {}", around("keyof\n", "C", ""))),
        ("conditional types", "ts", format!("type A = {}", around("B extends C ? D : ", "E", ""))),
        ("arrays of types", "ts", format!("type A = B{}", "[]".repeat(n))),
        ("casts", "ts", format!("x = y{}", " as any".repeat(n))),
        ("not null", "ts", format!("x = y{}", "!".repeat(n))),
        ("namespaces", "ts", format!("namespace a{} {{}}", ".b".repeat(n))),
        ("elements", "tsx", format!("x = {}", around("<a>", "", "</a>"))),
        ("elements with quotes", "tsx", format!("x = {}", around("<a>'{", "1", "}</a>"))),
    ]
}

#[test]
fn deeply_nested_source_is_refused() {
    for (name, ending, source) in nested(32_000) {
        let path = format!("/x.{ending}");
        let refused = check(Path::new(&path), &source);
        assert!(refused.is_err(), "{name}: {refused:?}");
    }
}

#[test]
fn accepted_source_can_be_parsed() {
    for (name, ending, _) in nested(1) {
        let source = |n: usize| nested(n).into_iter().find(|(known, ..)| *known == name).unwrap().2;
        let path = format!("/x.{ending}");
        let path = Path::new(&path);
        // Bisects for the deepest source that passes the check.
        let (mut low, mut high) = (1, 32_000);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            match check(path, &source(middle)) {
                Ok(_) => low = middle,
                Err(_) => high = middle,
            }
        }
        // The result does not matter, only that parsing ends without a stack overflow.
        drop(transform::transform(path, &source(low), None));
        assert!(low > 300, "{name}: only {low}");
    }
}

#[test]
fn long_flat_source_is_not_deep() {
    let check = |source: &str| check(Path::new("/x.ts"), source).unwrap();
    let statements = "foo(a, [b, { c: 1 }]);\nif (a < b) { c() } else d();\n".repeat(20_000);
    assert!(check(&statements) < 20);
    let without_semicolons =
        "foo(a)\nconst b = a / 2\nif (a < b) c()\nexport { b }\n".repeat(20_000);
    assert!(check(&without_semicolons) < 20);
    let members = format!(
        "class A {{\n{}}}",
        "  a() { return this.b(1) }\n  c = x => /['\"]/\n".repeat(20_000)
    );
    assert!(check(&members) < 20);
    let object = format!("x = {{ {} }}", "a: b + 1, 'c': { d: [1, -2] }, ".repeat(20_000));
    assert!(check(&object) < 20);
    let minified =
        "if(a)b();else c(d?e:f);for(;;){g=(h+1)/2*(i)/3}var j=/[(]/,k=l++/2;".repeat(20_000);
    assert!(check(&minified) < 30);
}
