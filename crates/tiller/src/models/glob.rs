//! Glob patterns over short names: `*` any text, `?` one character, `[a-z]` one of a set. Case is
//! ignored.

pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let (mut at, mut place) = (0, 0);
    // Where to resume if the last star has to match more.
    let mut star = None;
    while place < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, place));
                at += 1;
                continue;
            }
            Some(_) => {
                if let Some(len) = one(&pattern[at..], name[place]) {
                    at += len;
                    place += 1;
                    continue;
                }
            }
            None => {}
        }
        let Some((back, from)) = star else { return false };
        star = Some((back, from + 1));
        (at, place) = (back + 1, from + 1);
    }
    pattern[at..].iter().all(|&rest| rest == '*')
}

/// The length of the pattern's first element, if it matches this character.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern[0] {
        '?' => Some(1),
        '[' => {
            // An unclosed bracket matches itself.
            let Some(end) = pattern.iter().skip(2).position(|&c| c == ']').map(|at| at + 2) else {
                return (c == '[').then_some(1);
            };
            let is_negated = matches!(pattern[1], '!' | '^') && end > 2;
            let set = &pattern[if is_negated { 2 } else { 1 }..end];
            (in_set(set, c) != is_negated).then_some(end + 1)
        }
        same => (same == c).then_some(1),
    }
}

fn in_set(set: &[char], c: char) -> bool {
    let mut at = 0;
    while at < set.len() {
        if set.get(at + 1) == Some(&'-')
            && let Some(&last) = set.get(at + 2)
        {
            if (set[at]..=last).contains(&c) {
                return true;
            }
            at += 3;
        } else {
            if set[at] == c {
                return true;
            }
            at += 1;
        }
    }
    false
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
