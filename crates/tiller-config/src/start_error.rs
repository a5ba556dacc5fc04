//! Why the process exits before it has started.

use std::fmt;

/// The exit code for an invalid command line.
pub const USAGE: u8 = 2;

#[derive(Clone, Debug, PartialEq)]
pub enum StartError {
    /// The command line is invalid.
    Usage(String),
    /// It is valid, but cannot be carried out.
    Failed(String),
}

impl StartError {
    pub fn exit_code(&self) -> u8 {
        match self {
            StartError::Usage(_) => USAGE,
            StartError::Failed(_) => 1,
        }
    }

    /// The reason alone.
    pub fn message(&self) -> &str {
        let (StartError::Usage(message) | StartError::Failed(message)) = self;
        message
    }
}

/// As printed.
impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error: {}", self.message())
    }
}

impl From<String> for StartError {
    fn from(message: String) -> StartError {
        StartError::Failed(message)
    }
}
