//! Which rules the model was told in a conversation, and how long ago.

use std::collections::HashMap;

use crate::entry::{Body, Entry};
use crate::error::Error;
use crate::head::Kind;
use crate::session::Session;

impl Session {
    /// The rules that were told on the way to the leaf, each with the number of answers since it
    /// was told last. The file knows, so this holds after a reload, on a branch and in a fork.
    pub fn told_rules(&self) -> Result<HashMap<String, u64>, Error> {
        let mut told = HashMap::new();
        let mut answers = 0;
        for index in self.tree().ancestors(self.tree().leaf()) {
            match self.tree().kind(index) {
                Kind::Assistant => answers += 1,
                Kind::TtsrInjection => {
                    let entry = Entry::read(&self.line(index)?);
                    if let Some(Body::TtsrInjection { rules }) = entry.and_then(|entry| entry.body)
                    {
                        for rule in rules {
                            told.entry(rule).or_insert(answers);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(told)
    }
}
