//! Finds deferred tools by the words of a query.

/// The name of the tool that the model searches with.
pub const SEARCH_TOOL: &str = "tool_search";

/// What is searched of a tool.
pub struct Searchable<'a> {
    /// The name that the model calls.
    pub name: &'a str,
    pub description: &'a str,
    /// What the tool's server offers.
    pub server: &'a str,
}

/// The places of the tools that match best, best first, at most `limit`.
pub fn search(query: &str, tools: &[Searchable<'_>], limit: usize) -> Vec<usize> {
    // Every name begins with it.
    let words: Vec<String> = words(query).filter(|word| word != "mcp").collect();
    let mut scored: Vec<(usize, usize)> = tools
        .iter()
        .enumerate()
        .map(|(place, tool)| (score(&words, query, tool), place))
        .filter(|(score, _)| *score > 0)
        .collect();
    // The order of the servers decides among equals.
    scored.sort_by_key(|(score, place)| (usize::MAX - score, *place));
    scored.into_iter().take(limit).map(|(_, place)| place).collect()
}

fn score(query_words: &[String], query: &str, tool: &Searchable<'_>) -> usize {
    const EXACT: usize = 1000;
    if tool.name.eq_ignore_ascii_case(query.trim()) {
        return EXACT;
    }
    let place = |text: &str, whole: usize, part: usize, word: &str| {
        let mut best = 0;
        for other in words(text) {
            if other == word {
                best = best.max(whole);
            } else if word.len() > 2 && other.contains(word) {
                best = best.max(part);
            }
        }
        best
    };
    let of_word = |word: &String| {
        place(tool.name, 12, 6, word)
            + place(tool.description, 4, 2, word)
            + place(tool.server, 2, 1, word)
    };
    query_words.iter().map(of_word).sum()
}

/// Lower-case words: `readFile`, `read_file` and `read-file` have the same two.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::with_capacity(text.len() + 8);
    let mut after_lower = false;
    for c in text.chars() {
        if c.is_uppercase() && after_lower {
            spaced.push(' ');
        }
        after_lower = c.is_lowercase() || c.is_ascii_digit();
        spaced.push(if c.is_alphanumeric() { c } else { ' ' });
    }
    spaced.to_lowercase().split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(query: &str, expected: Expect) {
        let tools = [
            ("mcp__github__search_code", "Find code in repositories", "GitHub"),
            ("mcp__github__createIssue", "Open an issue", "GitHub"),
            ("mcp__mail__send", "Send a message by mail", "mail of the team"),
            ("mcp__mail__list", "List messages", "mail of the team"),
        ];
        let tools =
            tools.map(|(name, description, server)| Searchable { name, description, server });
        let names: Vec<&str> =
            search(query, &tools, 3).into_iter().map(|place| tools[place].name).collect();
        expected.assert_eq(&names.join(" "));
    }

    #[test]
    fn names_count_more_than_descriptions() {
        check("issue", expect!["mcp__github__createIssue"]);
        check("create issue github", expect!["mcp__github__createIssue mcp__github__search_code"]);
        check("message", expect!["mcp__mail__send mcp__mail__list"]);
        check("repo", expect!["mcp__github__search_code"]);
        check("team", expect!["mcp__mail__send mcp__mail__list"]);
        check("mcp__mail__list", expect!["mcp__mail__list mcp__mail__send"]);
        check("weather", expect![""]);
        check("", expect![""]);
    }
}
