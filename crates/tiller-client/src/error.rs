//! What can go wrong between a host and tiller.

use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

use crate::turn::PromptResult;

/// Why a request, a prompt or the whole client failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientError {
    /// The program cannot be started: it does not exist or is not executable.
    ServerNotFound {
        /// The program.
        program: String,
        /// The error of the operating system.
        reason: String,
    },
    /// There is no connection to the server of many sessions.
    ServerUnreachable {
        /// Its address.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// tiller has ended although the client was not closed. Everything pending fails with this.
    ServerExited {
        /// How the process ended; absent if the client was attached to streams.
        status: Option<ExitStatus>,
        /// The last lines that tiller wrote to stderr.
        stderr_tail: String,
    },
    /// tiller did not answer in time when it was started.
    StartTimeout {
        /// The limit of the builder.
        limit: Duration,
    },
    /// tiller has refused a command. A refused command changes nothing.
    CommandRefused {
        /// The name of the command.
        command: String,
        /// tiller's reason, a sentence for people.
        error: String,
    },
    /// tiller has written something that this client does not understand.
    Protocol {
        /// What was expected, and what came.
        reason: String,
    },
    /// The command has no response, so it cannot be requested.
    NoResponse {
        /// The name of the command.
        command: &'static str,
    },
    /// Events are missing: tiller no longer keeps them, or the reader was too slow.
    EventsLost {
        /// What happened.
        reason: String,
    },
    /// A prompt did not end well. From [`PromptResult::check`].
    RunFailed(Box<PromptResult>),
    /// The client was closed or dropped.
    Closed,
}

impl ClientError {
    pub(crate) fn protocol(reason: impl Into<String>) -> ClientError {
        ClientError::Protocol { reason: reason.into() }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::ServerNotFound { program, reason } => {
                write!(f, "cannot start {program}: {reason}")
            }
            ClientError::ServerUnreachable { address, reason } => {
                write!(f, "cannot connect to {address}: {reason}")
            }
            ClientError::ServerExited { status, stderr_tail } => {
                match status {
                    Some(status) => write!(f, "tiller has ended ({status})")?,
                    None => write!(f, "the connection to tiller has ended")?,
                }
                match stderr_tail.trim() {
                    "" => Ok(()),
                    tail => write!(f, ": {tail}"),
                }
            }
            ClientError::StartTimeout { limit } => {
                write!(f, "tiller did not answer within {limit:?}")
            }
            ClientError::CommandRefused { command, error } => write!(f, "{command}: {error}"),
            ClientError::Protocol { reason } => f.write_str(reason),
            ClientError::NoResponse { command } => {
                write!(f, "{command} has no response, so it cannot be requested")
            }
            ClientError::EventsLost { reason } => f.write_str(reason),
            ClientError::RunFailed(result) => {
                write!(f, "the prompt ended with status {:?}", result.status)?;
                match (&result.error, &result.reason) {
                    (Some(error), _) => write!(f, ": {error}"),
                    (None, Some(reason)) => write!(f, ": {reason:?}"),
                    (None, None) => Ok(()),
                }
            }
            ClientError::Closed => f.write_str("the client is closed"),
        }
    }
}

impl std::error::Error for ClientError {}
