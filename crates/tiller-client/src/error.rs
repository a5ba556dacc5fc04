//! What can go wrong between a host and tiller.

use std::fmt;

/// Why a request, a prompt or the whole client failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientError {
    /// The program could not be started.
    Start {
        /// The program.
        program: String,
        /// The error of the operating system.
        reason: String,
    },
    /// tiller refused a command.
    Refused {
        /// The name of the command.
        command: String,
        /// tiller's text.
        error: String,
    },
    /// A response has other data than the caller expected.
    Data {
        /// The name of the command.
        command: String,
        /// What is wrong with the data.
        reason: String,
    },
    /// The command has no response, so it cannot be awaited.
    NoResponse {
        /// The name of the command.
        command: &'static str,
    },
    /// The program wrote a line that is not JSON. The client ends it.
    InvalidLine {
        /// The beginning of the line.
        line: String,
    },
    /// tiller has ended.
    Exited {
        /// Absent if a signal ended it, and for a client without a process.
        code: Option<i32>,
        /// The last lines that it wrote to stderr.
        stderr_tail: String,
    },
    /// The client was dropped, or it is closing.
    Closed,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Start { program, reason } => write!(f, "cannot start {program}: {reason}"),
            ClientError::Refused { command, error } => write!(f, "{command} was refused: {error}"),
            ClientError::Data { command, reason } => {
                write!(f, "the response to {command} has unexpected data: {reason}")
            }
            ClientError::NoResponse { command } => write!(f, "{command} has no response"),
            ClientError::InvalidLine { line } => {
                write!(f, "expected a record in JSON from tiller, got: {line}")
            }
            ClientError::Exited { code, stderr_tail } => {
                match code {
                    Some(code) => write!(f, "tiller has ended with exit code {code}")?,
                    None => write!(f, "tiller has ended without an exit code")?,
                }
                match stderr_tail.trim() {
                    "" => Ok(()),
                    tail => write!(f, "; its last output:\n{tail}"),
                }
            }
            ClientError::Closed => f.write_str("the client is closed"),
        }
    }
}

impl std::error::Error for ClientError {}
