//! Suggestions for misspelled words.

/// In bytes: three characters, the largest distance that is ever suggested.
const MAX_LENGTH_DIFFERENCE: usize = 3 * 4;

/// The candidate nearest to `word`, if it is near enough.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A third of the letters may be wrong; in a short word, two swapped ones.
    let limit = (word.chars().count() / 3).clamp(1, 3);
    let word = word.to_lowercase();
    candidates
        .into_iter()
        // Words of very different lengths are never near, and long lines would be slow.
        .filter(|candidate| word.len().abs_diff(candidate.len()) <= MAX_LENGTH_DIFFERENCE)
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word_is_suggested() {
        let near = |word| nearest(word, ["say", "think", "call", "delta", "README.md"]);
        assert_eq!(near("sya"), Some("say"));
        assert_eq!(near("tihnk"), Some("think"));
        assert_eq!(near("Delta"), Some("delta"));
        assert_eq!(near("REDME.md"), Some("README.md"));
        assert_eq!(near("xyz"), None);
        assert_eq!(near("conversation"), None);
    }
}
