//! Glob patterns over short names: `*` any text, `?` one character, `[a-z]` one of a set. Case is
//! ignored.

use globset::{GlobBuilder, GlobMatcher};

pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    NamePattern::new(pattern).matches(name)
}

/// A pattern that is compiled once for many names.
pub(crate) struct NamePattern {
    lowercase: String,
    /// None if the pattern is invalid: then it matches only itself.
    matcher: Option<GlobMatcher>,
}

impl NamePattern {
    pub(crate) fn new(pattern: &str) -> NamePattern {
        let lowercase = pattern.to_lowercase();
        let glob = GlobBuilder::new(&lowercase).literal_separator(false).build();
        let matcher = glob.ok().map(|glob| glob.compile_matcher());
        NamePattern { lowercase, matcher }
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        match &self.matcher {
            Some(matcher) => matcher.is_match(name),
            None => self.lowercase == name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        let cases = [
            ("claude-*", "claude-opus-5", true),
            ("claude-*", "Claude-Opus-5", true),
            ("*sonnet*", "anthropic/claude-sonnet-5", true),
            ("openrouter/*", "openrouter/meta/llama", true),
            ("gpt-?", "gpt-5", true),
            ("gpt-?", "gpt-5.5", false),
            ("gpt-[45]*", "gpt-5.5", true),
            ("gpt-[!5]*", "gpt-5.5", false),
            ("gpt-[a-z]", "gpt-X", true),
            ("gpt-[a-z", "gpt-[a-z", true),
            ("*", "", true),
            ("**", "a/b", true),
            ("", "", true),
            ("", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("[]]", "]", true),
            ("é*", "École", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_match_in_linear_time() {
        let pattern = "*a".repeat(50) + "b";
        assert!(!matches(&pattern, &"a".repeat(20_000)));
    }
}
