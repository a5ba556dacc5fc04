//! Which stream rules were injected into a conversation, and how long ago.

use std::collections::HashMap;

use crate::entry::{Body, Entry};
use crate::error::Error;
use crate::head::Kind;
use crate::session::Session;

impl Session {
    /// The rules that were injected on the path to the leaf, each with the number of answers since.
    /// It is read from the file, so it holds after a reload, on a branch and in a fork.
    pub fn injected_rules(&self) -> Result<HashMap<String, u64>, Error> {
        let mut answers_since = HashMap::new();
        let mut answers = 0;
        for index in self.tree().ancestors(self.tree().leaf()) {
            match self.tree().kind(index) {
                Kind::Assistant => answers += 1,
                Kind::TtsrInjection => {
                    let entry = Entry::read(&self.line(index)?);
                    if let Some(Body::TtsrInjection { rules }) = entry.and_then(|entry| entry.body)
                    {
                        for rule in rules {
                            answers_since.entry(rule).or_insert(answers);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(answers_since)
    }
}
