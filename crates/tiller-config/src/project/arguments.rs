//! Arguments of prompt templates: splitting the typed text, and substitution.

/// Splits at spaces; quotes group words. There are no escapes, and empty quotes yield nothing.
pub(super) fn split(typed: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut argument = String::new();
    let mut quote = None;
    for c in typed.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => argument.push(c),
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c.is_whitespace() => arguments.push(std::mem::take(&mut argument)),
            None => argument.push(c),
        }
    }
    arguments.push(argument);
    arguments.retain(|argument| !argument.is_empty());
    arguments
}

/// Replaces `$1`, `$@`, `$ARGUMENTS`, `${1:-x}`, `${@:-x}`, `${ARGUMENTS:-x}`, `${@:2}` and
/// `${@:2:1}` in one pass: inserted arguments are not substituted again. Anything else stays.
pub(super) fn substitute(body: &str, arguments: &[String]) -> String {
    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let (replacement, used) = match substitution(&rest[1..], arguments) {
            Some((replacement, used)) => (replacement, 1 + used),
            None => ("$".to_owned(), 1),
        };
        text.push_str(&replacement);
        rest = &rest[used..];
    }
    text.push_str(rest);
    text
}

/// The replacement for the text after a `$`, and how many bytes of the text it replaces.
fn substitution(text: &str, arguments: &[String]) -> Option<(String, usize)> {
    let all = || arguments.join(" ");
    if let Some(inside) = text.strip_prefix('{') {
        let end = inside.find('}')?;
        return Some((in_braces(&inside[..end], arguments)?, end + 2));
    }
    if text.starts_with('@') {
        return Some((all(), 1));
    }
    if text.starts_with("ARGUMENTS") {
        return Some((all(), "ARGUMENTS".len()));
    }
    let digits = digits(text);
    (digits > 0).then(|| (nth(&text[..digits], arguments).unwrap_or_default(), digits))
}

fn in_braces(inside: &str, arguments: &[String]) -> Option<String> {
    let all = || (!arguments.is_empty()).then(|| arguments.join(" "));
    if let Some((name, default)) = inside.split_once(":-") {
        let value = match name {
            "@" | "ARGUMENTS" => all(),
            _ if digits(name) == name.len() && !name.is_empty() => nth(name, arguments),
            _ => return None,
        };
        return Some(value.unwrap_or_else(|| default.to_owned()));
    }
    let slice = inside.strip_prefix("@:")?;
    let (from, length) = match slice.split_once(':') {
        Some((from, length)) => (from, Some(length)),
        None => (slice, None),
    };
    let number = |text: &str| text.parse::<usize>().ok().filter(|_| digits(text) == text.len());
    // Counted from 1; 0 means 1.
    let from = number(from)?.saturating_sub(1);
    let length = length.map_or(Some(usize::MAX), number)?;
    let chosen: Vec<&str> = arguments.iter().skip(from).take(length).map(String::as_str).collect();
    Some(chosen.join(" "))
}

fn nth(number: &str, arguments: &[String]) -> Option<String> {
    let index = number.parse::<usize>().ok()?.checked_sub(1)?;
    arguments.get(index).cloned()
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(body: &str, typed: &str, expected: Expect) {
        expected.assert_eq(&substitute(body, &split(typed)));
    }

    #[test]
    fn arguments_split_at_spaces_and_quotes() {
        let check = |typed: &str, expected: Expect| {
            expected.assert_eq(&format!("{:?}", split(typed)));
        };
        check("", expect!["[]"]);
        check("  a\n\tb  ", expect![[r#"["a", "b"]"#]]);
        check(r#""a b" 'c "d"' e'f g'h"#, expect![[r#"["a b", "c \"d\"", "ef gh"]"#]]);
        check(r#"a "" '' b"#, expect![[r#"["a", "b"]"#]]);
        check(r#"never "ends here"#, expect![[r#"["never", "ends here"]"#]]);
        check(r"a\ b", expect![[r#"["a\\", "b"]"#]]);
    }

    #[test]
    fn all_placeholders_are_substituted() {
        check(
            "Review ${1:-all} rest=${@:2} n=$2 all=$@ A=$ARGUMENTS slice=${@:1:1}",
            r#""a b" c d"#,
            expect!["Review a b rest=c d n=c all=a b c d A=a b c d slice=a b"],
        );
        check(
            "[$1] [$@] [$ARGUMENTS] [${1:-x y}] [${@:-none}] [${ARGUMENTS:-none}] [${@:2}]",
            "",
            expect!["[] [] [] [x y] [none] [none] []"],
        );
        check("$10 $1$2 ${@:0} ${@:2:9} ${@:9}", "a b", expect![" ab a b b "]);
    }

    #[test]
    fn unknown_placeholders_stay() {
        let text = "$ $$ $HOME ${HOME} ${1} ${} ${:-a} ${x:-a} ${@:a} ${@:1:} ${ $é cost: 5$";
        check(
            text,
            "a b",
            expect!["$ $$ $HOME ${HOME} ${1} ${} ${:-a} ${x:-a} ${@:a} ${@:1:} ${ $é cost: 5$"],
        );
    }

    #[test]
    fn inserted_arguments_are_not_substituted_again() {
        check("$1 $2", "'$2' '$ARGUMENTS'", expect!["$2 $ARGUMENTS"]);
    }
}
