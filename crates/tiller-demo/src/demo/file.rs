//! Describes a file's content by simple patterns.

use serde_json::Value;

/// The most names in a list.
const NAMED_MAX: usize = 8;

/// Its kind, its size, and its outline.
pub(crate) fn summary(path: &str, text: &str) -> String {
    let (text, lines, whole) = without_note(text);
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension).to_lowercase();
    let (kind, reading) = kind(path, &extension);
    let head = format!("`{path}` is {kind} of {}.", count(lines, "line", "lines"));
    let facts = match reading {
        Reading::Markdown => markdown(text),
        Reading::Code => definitions(text),
        Reading::Json if whole => json(text),
        Reading::Sections => sections(text),
        Reading::Table => columns(text),
        Reading::Json | Reading::Text => None,
    };
    let facts = facts.unwrap_or_else(|| format!("It begins:\n\n{}", beginning(text)));
    format!("{head} {facts}")
}

/// `1 file`, `3 files`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// `a`, `b` and `c`.
pub(crate) fn list_of(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        None => "nothing".into(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

/// Removes the note in brackets that the read tool adds if there is more. Returns the text, the
/// number of lines as far as known, and whether the text is complete.
fn without_note(text: &str) -> (&str, usize, bool) {
    let note = text.rfind("\n\n[").filter(|_| text.ends_with(']'));
    let Some(at) = note.filter(|at| text[*at..].contains("offset=")) else {
        return (text, text.lines().count(), true);
    };
    let (text, note) = (&text[..at], &text[at..]);
    let shown = text.lines().count();
    let number = |word: &str| word.parse::<usize>().ok();
    let words: Vec<&str> = note.split([' ', '[', '.', '(']).collect();
    // "lines 1-2000 of 2501" or "7 more lines".
    let of = words.windows(2).find_map(|pair| number(pair[1]).filter(|_| pair[0] == "of"));
    let more = words.windows(2).find_map(|pair| number(pair[0]).filter(|_| pair[1] == "more"));
    (text, of.or(more.map(|more| shown + more)).unwrap_or(shown), false)
}

/// Whether the result contains the whole file.
pub(crate) fn is_whole(text: &str) -> bool {
    without_note(text).2
}

#[derive(Clone, Copy)]
enum Reading {
    Markdown,
    Code,
    Json,
    Sections,
    Table,
    Text,
}

fn kind(path: &str, extension: &str) -> (&'static str, Reading) {
    match extension {
        "md" | "markdown" => ("a Markdown document", Reading::Markdown),
        "rs" => ("a Rust source file", Reading::Code),
        "py" => ("a Python script", Reading::Code),
        "js" | "mjs" | "cjs" | "jsx" => ("a JavaScript file", Reading::Code),
        "ts" | "tsx" => ("a TypeScript file", Reading::Code),
        "go" => ("a Go source file", Reading::Code),
        "java" => ("a Java source file", Reading::Code),
        "c" | "h" => ("a C source file", Reading::Code),
        "cc" | "cpp" | "hpp" | "cxx" => ("a C++ source file", Reading::Code),
        "rb" => ("a Ruby script", Reading::Code),
        "sh" | "bash" => ("a shell script", Reading::Text),
        "json" => ("a JSON file", Reading::Json),
        "toml" => ("a TOML file", Reading::Sections),
        "ini" | "cfg" | "conf" => ("a configuration file", Reading::Sections),
        "yaml" | "yml" => ("a YAML file", Reading::Text),
        "csv" => ("a table", Reading::Table),
        "html" | "htm" => ("an HTML page", Reading::Text),
        "css" => ("a style sheet", Reading::Text),
        "log" => ("a log", Reading::Text),
        _ if path.ends_with("Makefile") => ("a Makefile", Reading::Text),
        _ => ("a text file", Reading::Text),
    }
}

fn markdown(text: &str) -> Option<String> {
    let mut headings = Vec::new();
    let mut title = None;
    let mut paragraph = String::new();
    let mut paragraph_done = false;
    let mut fenced = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            fenced = !fenced;
        }
        let heading = line.trim_start_matches('#').trim();
        let level = line.len() - line.trim_start_matches('#').len();
        if fenced {
            continue;
        } else if (1..=6).contains(&level) && !heading.is_empty() {
            paragraph_done |= !paragraph.is_empty();
            match title {
                None if level == 1 => title = Some(heading),
                _ => headings.push(heading),
            }
        } else if line.is_empty() {
            paragraph_done |= !paragraph.is_empty();
        } else if !paragraph_done && !line.starts_with(['[', '<', '!', '|', '`', '-', '=']) {
            paragraph.push_str(line);
            paragraph.push(' ');
        }
    }
    let mut reported = Vec::new();
    if let Some(title) = title {
        reported.push(format!("Its title is **{title}**."));
    }
    if !headings.is_empty() {
        reported.push(format!(
            "It has {}: {}.",
            count(headings.len(), "section", "sections"),
            named(&headings)
        ));
    }
    let paragraph = cut(paragraph.trim(), 400);
    if !paragraph.is_empty() {
        reported.push(format!("It says first:\n\n> {paragraph}"));
    }
    (!reported.is_empty()).then(|| reported.join(" "))
}

/// What a source file defines, by the first words of its lines.
fn definitions(text: &str) -> Option<String> {
    const BEFORE: [&str; 9] = [
        "pub ",
        "pub(crate) ",
        "export ",
        "default ",
        "async ",
        "static ",
        "public ",
        "private ",
        "abstract ",
    ];
    const KEYWORDS: [&str; 10] = [
        "fn ",
        "struct ",
        "enum ",
        "trait ",
        "class ",
        "def ",
        "function ",
        "interface ",
        "func ",
        "module ",
    ];
    let mut found = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim_start();
        while let Some(shorter) = BEFORE.iter().find_map(|word| rest.strip_prefix(word)) {
            rest = shorter;
        }
        let Some(name) = KEYWORDS.iter().find_map(|word| rest.strip_prefix(word)) else {
            continue;
        };
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        if end > 0 {
            found.push(&name[..end]);
        }
    }
    let definitions = count(found.len(), "definition", "definitions");
    (!found.is_empty()).then(|| format!("It has {definitions}: {}.", named(&found)))
}

fn json(text: &str) -> Option<String> {
    Some(match serde_json::from_str(text) {
        Ok(Value::Object(map)) => {
            let keys: Vec<&str> = map.keys().map(String::as_str).collect();
            let known = ["name", "description"].iter().filter_map(|key| {
                let value = map.get(*key)?.as_str()?;
                Some(format!(" Its {key} is \"{}\".", cut(value, 200)))
            });
            let known: String = known.collect();
            format!(
                "It is an object with {}: {}.{known}",
                count(keys.len(), "key", "keys"),
                named(&keys)
            )
        }
        Ok(Value::Array(list)) => {
            format!("It is a list of {}.", count(list.len(), "value", "values"))
        }
        Ok(_) => "It is a single value.".into(),
        Err(err) => format!("It is not valid JSON, by the way: {err}."),
    })
}

/// `[section]` lines, and the name and description if there are any.
fn sections(text: &str) -> Option<String> {
    let header = |line: &str| {
        let line = line.trim().strip_prefix('[')?.strip_suffix(']')?;
        Some(line.trim_matches(['[', ']']).to_owned())
    };
    let sections: Vec<String> = text.lines().filter_map(header).collect();
    let known = ["name", "description"].iter().filter_map(|key| {
        let value =
            text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='))?;
        Some(format!(" Its {key} is {}.", cut(value.trim(), 200)))
    });
    let known: String = known.collect();
    let names: Vec<&str> = sections.iter().map(String::as_str).collect();
    let reported =
        format!("It has {}: {}.{known}", count(names.len(), "section", "sections"), named(&names));
    (!sections.is_empty()).then_some(reported)
}

fn columns(text: &str) -> Option<String> {
    let (head, rows) = text.split_once('\n')?;
    let columns: Vec<&str> = head.split(',').map(str::trim).collect();
    let rows = count(rows.lines().count(), "row", "rows");
    Some(format!(
        "It has {rows} and {}: {}.",
        count(columns.len(), "column", "columns"),
        named(&columns)
    ))
}

fn named(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(NAMED_MAX).map(|name| cut(name, 60)).collect();
    let more = match names.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}

fn beginning(text: &str) -> String {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).take(3);
    let quoted: Vec<String> = lines.map(|line| format!("> {}", cut(line, 200))).collect();
    quoted.join("\n")
}

/// The beginning of a long text.
pub(crate) fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn kinds_of_files_are_recognised() {
        let files = [
            ("a.json", "{\"name\": \"boat\", \"sails\": 2}\n"),
            ("b.json", "[1, 2]"),
            ("c.json", "{oops"),
            ("d.csv", "name, age\nIda,30\nMarten,70\n"),
            ("e.py", "import os\n\nclass Boat:\n    def sail(self):\n        pass\n"),
            ("f.txt", "\nfirst\n\nsecond\nthird\nfourth\n"),
            ("g.md", "```\n# not a heading\n```\n"),
            ("h.rs", "// Nothing is defined here.\n"),
            ("i.log", "x\n\n[Showing lines 1-2000 of 2501. Use offset=2001 to continue.]"),
            ("j.txt", "x\ny\n\n[7 more lines in file. Use offset=3 to continue.]"),
            ("k.txt", "x\n\n[a note of their own]"),
        ];
        let reported: String =
            files.iter().map(|(path, text)| format!("{}\n", summary(path, text))).collect();
        expect![[r#"
            `a.json` is a JSON file of 1 line. It is an object with 2 keys: name, sails. Its name is "boat".
            `b.json` is a JSON file of 1 line. It is a list of 2 values.
            `c.json` is a JSON file of 1 line. It is not valid JSON, by the way: key must be a string at line 1 column 2.
            `d.csv` is a table of 3 lines. It has 2 rows and 2 columns: name, age.
            `e.py` is a Python script of 5 lines. It has 2 definitions: Boat, sail.
            `f.txt` is a text file of 6 lines. It begins:

            > first
            > second
            > third
            `g.md` is a Markdown document of 3 lines. It begins:

            > ```
            > # not a heading
            > ```
            `h.rs` is a Rust source file of 1 line. It begins:

            > // Nothing is defined here.
            `i.log` is a log of 2501 lines. It begins:

            > x
            `j.txt` is a text file of 9 lines. It begins:

            > x
            > y
            `k.txt` is a text file of 3 lines. It begins:

            > x
            > [a note of their own]
        "#]].assert_eq(&reported);
    }
}
