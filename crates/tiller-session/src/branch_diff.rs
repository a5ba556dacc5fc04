//! Leaving a branch: what lies behind the point where the ways part.

use std::sync::Arc;

use tiller_agent::message::Message;

use crate::error::Error;
use crate::head::Kind;
use crate::session::Session;

/// The way from the leaf to another entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchDiff {
    /// The last entry that both ways have in common.
    pub common: Option<String>,
    /// The entries that are left behind, oldest first.
    pub left: Vec<String>,
}

impl Session {
    /// What going to this entry would leave behind.
    pub fn parting(&self, to: &str) -> Result<BranchDiff, Error> {
        let tree = self.tree();
        let here = tree.path(tree.leaf());
        let there = tree.path(Some(self.find(to)?));
        let shared = here.iter().zip(&there).take_while(|(here, there)| here == there).count();
        let id = |index: &_| tree.id(*index).to_owned();
        Ok(BranchDiff {
            common: shared.checked_sub(1).map(|last| id(&here[last])),
            left: here[shared..].iter().map(id).collect(),
        })
    }

    /// What was said in these entries. Summaries of what came before them are part of it.
    pub fn said_in(&self, entries: &[String]) -> Result<Vec<Arc<Message>>, Error> {
        let mut said = Vec::new();
        for id in entries {
            let index = self.find(id)?;
            let kind = self.tree().kind(index);
            if kind.is_in_context() || kind == Kind::Compaction {
                let line = self.line(index)?;
                // What cannot be read could not be summed up either.
                said.extend(self.message(kind, &line).ok().map(Arc::new));
            }
        }
        Ok(said)
    }

    /// The entry that a message of the user's, or of an extension's, follows; for any other
    /// entry, that entry itself. This is where the message would be said again.
    pub fn place_of(&self, id: &str) -> Result<Option<String>, Error> {
        let index = self.find(id)?;
        let place = match self.tree().kind(index) {
            Kind::User | Kind::CustomMessage | Kind::CustomRole => self.tree().parent(index),
            _ => Some(index),
        };
        Ok(place.map(|index| self.tree().id(index).to_owned()))
    }
}
