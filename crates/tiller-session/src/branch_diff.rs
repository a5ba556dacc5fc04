//! Leaving a branch: finds the entries after the point where two branches split.

use std::sync::Arc;

use tiller_agent::message::Message;

use crate::error::Error;
use crate::head::Kind;
use crate::session::Session;

/// The difference between the path to the leaf and the path to another entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchDiff {
    /// The last entry on both paths.
    pub common: Option<String>,
    /// The entries that are on the leaf's path only, oldest first.
    pub abandoned: Vec<String>,
}

impl Session {
    /// Compares the leaf's path with the path to this entry.
    pub fn branch_diff(&self, to: &str) -> Result<BranchDiff, Error> {
        let tree = self.tree();
        let old_path = tree.path(tree.leaf());
        let new_path = tree.path(Some(self.find(to)?));
        let shared = old_path.iter().zip(&new_path).take_while(|(old, new)| old == new).count();
        let id = |index: &_| tree.id(*index).to_owned();
        Ok(BranchDiff {
            common: shared.checked_sub(1).map(|last| id(&old_path[last])),
            abandoned: old_path[shared..].iter().map(id).collect(),
        })
    }

    /// The messages in these entries, including summaries of what came before them.
    pub fn messages_of(&self, entries: &[String]) -> Result<Vec<Arc<Message>>, Error> {
        let mut messages = Vec::new();
        for id in entries {
            let index = self.find(id)?;
            let kind = self.tree().kind(index);
            if kind.is_in_context() || kind == Kind::Compaction {
                let line = self.line(index)?;
                // A message that cannot be read is left out of the summary.
                messages.extend(self.message(kind, &line).ok().map(Arc::new));
            }
        }
        Ok(messages)
    }

    /// For a message of the user or of an extension: its parent, where the message would be sent
    /// again. For any other entry: the entry itself.
    pub fn resend_parent(&self, id: &str) -> Result<Option<String>, Error> {
        let index = self.find(id)?;
        let parent = match self.tree().kind(index) {
            Kind::User | Kind::CustomMessage | Kind::CustomRole => self.tree().parent(index),
            _ => Some(index),
        };
        Ok(parent.map(|index| self.tree().id(index).to_owned()))
    }
}
