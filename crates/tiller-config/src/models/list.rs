//! `--list-models`: the usable models as a table.

use std::collections::BTreeSet;
use std::sync::Arc;

use tiller_agent::model::Model;

use super::{BUILTIN, Models};

/// The table for stdout, and a note for stderr.
pub struct ModelTable {
    pub table: String,
    pub note: Option<String>,
}

impl Models {
    /// Lists the models whose names contain every word of the search. If there are none, the
    /// letters of each word need only occur in order.
    pub fn list(&self, search: &str) -> ModelTable {
        let search = search.to_lowercase();
        let matches = |provider: &str, id: &str, name: &str, fits: fn(&str, &str) -> bool| {
            let text = format!("{provider}/{id} {name}").to_lowercase();
            search.split_whitespace().all(|word| fits(&text, word))
        };
        let models = self.available();
        let find = |fits: fn(&str, &str) -> bool| -> Vec<&Arc<Model>> {
            let found = models.iter();
            found.filter(|model| matches(&model.provider, &model.id, &model.name, fits)).collect()
        };
        let mut found = find(|text, word| text.contains(word));
        if found.is_empty() {
            found = find(has_letters);
        }
        let words: Vec<&str> = search.split_whitespace().flat_map(whole_words).collect();
        found.sort_by_cached_key(|model| {
            (match_rank(&words, &model.provider, &model.id), &model.provider, &model.id)
        });
        let keyless: BTreeSet<&str> = self
            .known_at(|provider| !self.credentials.has(provider))
            .filter(|known| !known.is_builtin() && self.is_supported(known))
            .filter(|known| {
                matches(known.provider, known.id, known.name, |text, word| text.contains(word))
            })
            .map(|known| known.provider)
            .collect();
        let table = if found.is_empty() {
            format!("No models matching \"{}\"\n", search.trim())
        } else {
            table(found.into_iter().map(|model| row(model)))
        };
        // A user who lists everything did not ask which other providers exist.
        let has_own = models.iter().any(|model| model.provider != BUILTIN);
        let is_asked = !search.trim().is_empty() || !has_own;
        let note = (is_asked && !keyless.is_empty()).then(|| {
            let keyless: Vec<&str> = keyless.into_iter().collect();
            format!("More with a key (tiller auth set PROVIDER) for: {}", keyless.join(", "))
        });
        ModelTable { table, note }
    }
}

/// How well a model matches the search.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MatchRank {
    /// The id has exactly these words.
    Same,
    /// The id contains them in sequence.
    Together,
    /// All of them are words of the provider and id.
    Words,
    /// They are parts of words.
    Parts,
}

fn match_rank(words: &[&str], provider: &str, id: &str) -> MatchRank {
    let (provider, id) = (provider.to_lowercase(), id.to_lowercase());
    let id_words: Vec<&str> = whole_words(&id).collect();
    if words.is_empty() || id_words == words {
        return MatchRank::Same;
    }
    if id_words.windows(words.len()).any(|window| window == words) {
        return MatchRank::Together;
    }
    let is_word =
        |word: &&str| id_words.contains(word) || whole_words(&provider).any(|it| it == *word);
    if words.iter().all(is_word) { MatchRank::Words } else { MatchRank::Parts }
}

fn whole_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Whether the letters of a word occur in order.
fn has_letters(text: &str, word: &str) -> bool {
    let mut rest = text.chars();
    word.chars().all(|letter| rest.any(|each| each == letter))
}

type ModelRow = [String; 6];

fn row(model: &Model) -> ModelRow {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    [
        model.provider.clone(),
        model.id.clone(),
        tokens(model.context_window),
        tokens(model.max_tokens),
        yes(model.reasoning),
        yes(model.sees_images()),
    ]
}

fn table(rows: impl Iterator<Item = ModelRow>) -> String {
    let head = ["provider", "model", "context", "max-out", "thinking", "images"].map(str::to_owned);
    let rows: Vec<ModelRow> = [head].into_iter().chain(rows).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// `200K`, `1M`, `8.2K`: at most one decimal.
fn tokens(count: u64) -> String {
    let short = |unit: u64, letter: &str| {
        let tenths = (count * 10 + unit / 2) / unit;
        match tenths % 10 {
            0 => format!("{}{letter}", tenths / 10),
            tenth => format!("{}.{tenth}{letter}", tenths / 10),
        }
    };
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => short(1_000, "K"),
        _ => short(1_000_000, "M"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_rank_before_parts_of_words() {
        for (search, provider, id, expected) in [
            (&["gpt", "5"][..], "openai", "gpt-5", MatchRank::Same),
            (&["gpt", "5"], "openai", "gpt-5-mini", MatchRank::Together),
            (&["gpt", "5"], "openai", "gpt-4.5", MatchRank::Words),
            (&["openai", "5"], "openai", "gpt-5", MatchRank::Words),
            (&["gpt", "5"], "openai", "gpt-3.5t-51", MatchRank::Parts),
            (&["gpt", "5"], "azure", "GPT-5", MatchRank::Same),
            (&[], "openai", "gpt-5", MatchRank::Same),
        ] {
            assert_eq!(match_rank(search, provider, id), expected, "{search:?} {provider}/{id}");
        }
    }

    #[test]
    fn token_counts_are_abbreviated() {
        let counts = [0, 999, 1_000, 8_192, 16_384, 128_000, 1_000_000, 1_048_576, 1_050_000];
        let shown = counts.map(tokens).join(" ");
        assert_eq!(shown, "0 999 1K 8.2K 16.4K 128K 1M 1M 1.1M");
    }
}
