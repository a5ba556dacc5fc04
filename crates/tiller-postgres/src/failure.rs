//! Why the database did not do what it was asked, and what follows.

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// For people.
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The database could not be reached. Nothing was changed; another attempt may succeed.
    Unreachable,
    /// The connection was lost while the request was under way. It may have been carried out.
    Lost,
    /// The database has refused, and may accept the same request soon. Nothing was changed.
    Busy,
    /// The database has refused. Nothing was changed.
    Refused,
}

impl Failure {
    /// Whether another attempt may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        self.kind != FailureKind::Refused
    }

    /// A request that took too long. Its connection must be dropped.
    pub(crate) fn timeout() -> Failure {
        Failure { kind: FailureKind::Lost, text: "the database does not answer".to_owned() }
    }

    /// Every connection was used by other requests until the time was over.
    pub(crate) fn no_connection() -> Failure {
        let text = "all connections to the database are in use".to_owned();
        Failure { kind: FailureKind::Unreachable, text }
    }

    /// A new connection was not made until the time was over.
    pub(crate) fn no_answer() -> Failure {
        let text = "cannot connect to the database: it does not answer".to_owned();
        Failure { kind: FailureKind::Unreachable, text }
    }

    /// The failure to report: where the last attempt did not reach the database before the time was
    /// over, an earlier one says more.
    pub(crate) fn or_cause(self, earlier: Option<Failure>) -> Failure {
        match earlier {
            Some(earlier) if self.kind == FailureKind::Unreachable => earlier,
            _ => self,
        }
    }

    /// The task of the request has panicked.
    pub(crate) fn crashed() -> Failure {
        let text = "internal error: the task of the store has failed".to_owned();
        Failure { kind: FailureKind::Lost, text }
    }

    /// A connection was not to be had.
    pub(crate) fn of_pool(err: &PoolError) -> Failure {
        let kind = FailureKind::Unreachable;
        match err {
            PoolError::Backend(err) => {
                let (is_refused, text) = (err.as_db_error().is_some(), describe(err));
                if is_refused {
                    return Failure { kind, text };
                }
                Failure { kind, text: format!("cannot connect to the database: {text}") }
            }
            PoolError::Timeout(TimeoutType::Wait) => Failure::no_connection(),
            PoolError::Timeout(_) => Failure::no_answer(),
            err => Failure { kind, text: format!("cannot connect to the database: {err}") },
        }
    }

    /// A request has failed.
    pub(crate) fn of(err: &Error) -> Failure {
        let kind = match err.as_db_error() {
            Some(answer) if !ends_connection(answer.parsed_severity()) => {
                kind_of_state(answer.code())
            }
            _ => FailureKind::Lost,
        };
        Failure { kind, text: describe(err) }
    }
}

/// Whether the server ends the connection with this answer. The transaction may have been committed
/// by then, whatever the cause: a server whose disk becomes full while it writes a commit ends with
/// PANIC, and recovers the commit at its next start.
fn ends_connection(severity: Option<Severity>) -> bool {
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

/// What an answer of the database means. Its classes are in the appendix of PostgreSQL's manual.
fn kind_of_state(state: &SqlState) -> FailureKind {
    match state.code() {
        // Another session of the database ended the connection, or the database ends. The request
        // may have been committed in that moment.
        "57P01" | "57P02" => FailureKind::Lost,
        // A time limit of the server, or an administrator.
        "57014" => FailureKind::Busy,
        // It is about to start or to end, or is a replica that has not been promoted yet.
        "57P03" | "25006" => FailureKind::Busy,
        // A deadlock, a conflict with another transaction, too many connections or locks.
        "40001" | "40P01" | "53300" | "53200" | "55P03" | "55006" => FailureKind::Busy,
        // What went wrong with the commit is not known.
        "08007" | "40003" => FailureKind::Lost,
        code if code.starts_with("08") => FailureKind::Lost,
        _ => FailureKind::Refused,
    }
}

/// The error in words. Neither the address nor the password is in it.
pub(crate) fn describe(err: &Error) -> String {
    if let Some(err) = err.as_db_error() {
        return format!("{} ({})", err.message(), err.code().code());
    }
    if err.is_closed() {
        return "the connection to the database was lost".to_owned();
    }
    match std::error::Error::source(err) {
        Some(cause) => format!("{err}: {cause}"),
        None => err.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_of_the_database_says_what_follows() {
        for (code, expected) in [
            ("57P01", FailureKind::Lost),
            ("57P02", FailureKind::Lost),
            ("57P03", FailureKind::Busy),
            ("57014", FailureKind::Busy),
            ("40P01", FailureKind::Busy),
            ("53300", FailureKind::Busy),
            ("25006", FailureKind::Busy),
            ("08006", FailureKind::Lost),
            ("08007", FailureKind::Lost),
            ("53100", FailureKind::Refused),
            ("22021", FailureKind::Refused),
            ("42P01", FailureKind::Refused),
            ("42501", FailureKind::Refused),
        ] {
            assert_eq!(kind_of_state(&SqlState::from_code(code)), expected, "{code}");
        }
    }

    #[test]
    fn last_attempt_that_reached_nothing_does_not_hide_the_cause() {
        let of = |kind| Failure { kind, text: format!("{kind:?}") };
        let (lost, refused) = (of(FailureKind::Lost), of(FailureKind::Refused));
        let unknown_database = of(FailureKind::Unreachable);
        for (last, earlier, expected) in [
            (Failure::no_connection(), None, Failure::no_connection()),
            (Failure::no_connection(), Some(&unknown_database), unknown_database.clone()),
            (Failure::no_answer(), Some(&lost), lost.clone()),
            (refused.clone(), Some(&lost), refused.clone()),
            (lost.clone(), Some(&unknown_database), lost.clone()),
        ] {
            assert_eq!(last.clone().or_cause(earlier.cloned()), expected, "{last:?} {earlier:?}");
        }
    }

    #[test]
    fn answer_that_ends_the_connection_leaves_the_outcome_open() {
        for (severity, expected) in [
            (Some(Severity::Panic), true),
            (Some(Severity::Fatal), true),
            (Some(Severity::Error), false),
            (None, false),
        ] {
            assert_eq!(ends_connection(severity), expected, "{severity:?}");
        }
    }
}
