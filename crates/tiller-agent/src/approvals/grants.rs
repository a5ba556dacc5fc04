//! What the user has allowed for the rest of a session.

use std::path::PathBuf;

use super::command::{Shape, offered_prefix};
use super::{CallFacts, CallTarget, PathTarget, Place};

/// Calls that the user can allow for the session.
#[derive(Clone, Debug, PartialEq)]
pub enum Grant {
    /// All calls of this tool.
    Tool(String),
    /// Calls of this tool for files in the working directory.
    InFolder(String),
    /// Calls of this tool for this path, with its links resolved.
    Path(String, PathBuf),
    /// This command, letter for letter.
    Command(String),
    /// Commands that are simple and begin with these words.
    Prefix(Vec<String>),
}

/// The grants of a session.
#[derive(Clone, Debug, Default)]
pub struct Grants(Vec<Grant>);

impl Grants {
    pub fn add(&mut self, grant: Grant) {
        if !self.0.contains(&grant) {
            self.0.push(grant);
        }
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn cover(&self, call: &CallFacts) -> bool {
        self.0.iter().any(|grant| grant.covers(call))
    }

    /// Whether a grant covers this call and no other ones.
    pub(super) fn name(&self, call: &CallFacts) -> bool {
        self.0.iter().any(|grant| grant.is_exact() && grant.covers(call))
    }
}

impl Grant {
    /// What the user can choose for this call, the narrowest first.
    pub(super) fn offered(call: &CallFacts) -> Vec<Grant> {
        let tool = || call.tool.clone();
        match &call.target {
            CallTarget::Unknown => vec![Grant::Tool(tool())],
            CallTarget::Path(PathTarget { place: Place::Inside, .. }) => {
                vec![Grant::InFolder(tool())]
            }
            CallTarget::Path(path) => vec![Grant::Path(tool(), path.real.clone())],
            CallTarget::Command(command) => {
                let prefix = match Shape::of(command) {
                    Shape::Simple(words) => offered_prefix(&words).map(Grant::Prefix),
                    Shape::List(_) | Shape::Opaque => None,
                };
                [Grant::Command(command.clone())].into_iter().chain(prefix).collect()
            }
        }
    }

    /// The same where a rule wants the user to be asked: only this very call.
    pub(super) fn offered_exactly(call: &CallFacts) -> Vec<Grant> {
        match &call.target {
            CallTarget::Unknown => Vec::new(),
            CallTarget::Path(path) => vec![Grant::Path(call.tool.clone(), path.real.clone())],
            CallTarget::Command(command) => vec![Grant::Command(command.clone())],
        }
    }

    fn is_exact(&self) -> bool {
        matches!(self, Grant::Path(..) | Grant::Command(_))
    }

    fn covers(&self, call: &CallFacts) -> bool {
        match (self, &call.target) {
            (Grant::Tool(tool), CallTarget::Unknown) => *tool == call.tool,
            (Grant::InFolder(tool), CallTarget::Path(path)) => {
                *tool == call.tool && path.place == Place::Inside
            }
            (Grant::Path(tool, granted), CallTarget::Path(path)) => {
                *tool == call.tool && *granted == path.real
            }
            (Grant::Command(granted), CallTarget::Command(command)) => granted == command,
            (Grant::Prefix(words), CallTarget::Command(command)) => {
                matches!(Shape::of(command), Shape::Simple(given) if given.starts_with(words))
            }
            _ => false,
        }
    }
}
