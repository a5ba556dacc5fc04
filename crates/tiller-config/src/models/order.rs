//! Sort order of model names, which decides which of several matches is the newest.

use std::cmp::Ordering;

/// Compares like Unicode collation for the characters of model names: punctuation before digits
/// before letters, and case last.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let folded = a.chars().map(rank).cmp(b.chars().map(rank));
    folded.then_with(|| b.cmp(a))
}

const MARKS: &str = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

fn rank(c: char) -> (u8, u32) {
    if let Some(at) = MARKS.find(c) {
        return (0, at as u32);
    }
    let lower = c.to_lowercase().next().unwrap_or(c);
    (if c.is_numeric() { 1 } else { 2 }, lower as u32)
}

/// Whether this id always points to the newest version of a model (it has no date).
pub(super) fn is_alias(id: &str) -> bool {
    let is_date = |end: &str| end.len() == 8 && end.bytes().all(|b| b.is_ascii_digit());
    !id.rsplit_once('-').is_some_and(|(_, end)| is_date(end))
}

/// Part of a model's id, and the provider that makes such models. All others are resellers.
const MAKERS: &[(&str, &str)] = &[
    ("claude", "anthropic"),
    ("codex", "openai"),
    ("deepseek", "deepseek"),
    ("devstral", "mistral"),
    ("gemini", "google"),
    ("glm", "zai"),
    ("gpt", "openai"),
    ("grok", "xai"),
    ("kimi", "moonshotai"),
    ("llama", "meta"),
    ("mimo", "xiaomi"),
    ("minimax", "minimax"),
    ("mistral", "mistral"),
    ("muse", "meta"),
    ("nemotron", "nvidia"),
    ("nova", "amazon-bedrock"),
];

/// Whether the provider makes this model.
pub(super) fn is_maker(provider: &str, id: &str) -> bool {
    let id = id.to_lowercase();
    MAKERS.iter().any(|(part, maker)| *maker == provider && id.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_like_unicode_collation() {
        let mut names = ["b-1", "B-1", "b.1", "a10", "a2", "b1", "é", "b:1", "bb"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, ["a10", "a2", "b-1", "B-1", "b:1", "b.1", "b1", "bb", "é"]);
    }

    #[test]
    fn dated_ids_are_not_aliases() {
        assert!(is_alias("claude-opus-5"));
        assert!(is_alias("gpt-latest"));
        assert!(is_alias("gpt-5-2025"));
        assert!(!is_alias("claude-opus-4-5-20251101"));
    }
}
