//! Did you mean: the word somebody probably wanted to write.

/// The candidate nearest to `word`, if one is near enough to suggest.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A third of the letters may be wrong; in a short word, two that changed places.
    let limit = (word.chars().count() / 3).clamp(1, 3);
    let word = word.to_lowercase();
    let scored = candidates.into_iter().map(|it| (distance(&word, &it.to_lowercase()), it));
    scored
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, it)| it)
}

/// How many letters must be put in, left out, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    // Words this different in length are never near, and a long line is not worth a table.
    if a.len().abs_diff(b.len()) > 3 {
        return usize::MAX;
    }
    let mut before = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + changed);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested() {
        let near = |word| nearest(word, ["say", "think", "call", "delta", "README.md"]);
        assert_eq!(near("sya"), Some("say"));
        assert_eq!(near("tihnk"), Some("think"));
        assert_eq!(near("Delta"), Some("delta"));
        assert_eq!(near("REDME.md"), Some("README.md"));
        assert_eq!(near("xyz"), None);
        assert_eq!(near("conversation"), None);
    }
}
