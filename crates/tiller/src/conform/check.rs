//! A check and its result.

use serde::Serialize;

use super::bench::Bench;

/// One statement about a server, and the function that tries it.
#[derive(Clone, Copy)]
pub(super) struct Check {
    pub(super) group: Group,
    /// What holds if the check passes.
    pub(super) name: &'static str,
    pub(super) run: fn(&Bench) -> Result<(), NotMet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Group {
    Start,
    Framing,
    Order,
    Queues,
    Abort,
    Retries,
    Sessions,
    HostTools,
    Eof,
    Signals,
    Hygiene,
}

impl Group {
    pub(super) fn name(self) -> &'static str {
        match self {
            Group::Start => "start",
            Group::Framing => "framing",
            Group::Order => "order",
            Group::Queues => "queues",
            Group::Abort => "abort",
            Group::Retries => "retries",
            Group::Sessions => "sessions",
            Group::HostTools => "host-tools",
            Group::Eof => "eof",
            Group::Signals => "signals",
            Group::Hygiene => "hygiene",
        }
    }
}

/// Why a check did not pass.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NotMet {
    /// A sentence: what was expected, and what came.
    Failed(String),
    /// The server does not have what is checked, or the system cannot show it.
    Skipped(String),
}

impl From<String> for NotMet {
    fn from(why: String) -> NotMet {
        NotMet::Failed(why)
    }
}

/// Fails with `expected …; came …` unless the condition holds.
pub(super) fn expect(
    holds: bool,
    expected: &str,
    came: impl FnOnce() -> String,
) -> Result<(), NotMet> {
    if holds {
        Ok(())
    } else {
        Err(NotMet::Failed(format!("expected {expected}; came {}", came())))
    }
}

/// Fails unless two values are equal. The sentence shows them as JSON.
pub(super) fn expect_eq<T, U>(came: &T, expected: &U, what: &str) -> Result<(), NotMet>
where
    T: PartialEq<U> + Serialize,
    U: Serialize,
{
    expect(came == expected, &format!("{what} {}", shown(expected)), || shown(came))
}

fn shown(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|err| format!("({err})"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Failed,
    Skipped,
}

/// The result of a check, as `--json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CheckResult {
    pub(super) group: Group,
    pub(super) name: &'static str,
    pub(super) status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
}

impl CheckResult {
    pub(super) fn new(check: &Check, result: Result<(), NotMet>) -> CheckResult {
        let (status, detail) = match result {
            Ok(()) => (Status::Ok, None),
            Err(NotMet::Failed(why)) => (Status::Failed, Some(why)),
            Err(NotMet::Skipped(why)) => (Status::Skipped, Some(why)),
        };
        CheckResult { group: check.group, name: check.name, status, detail }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sentence_has_what_was_expected_and_what_came() {
        assert_eq!(expect_eq(&1, &1, "the count"), Ok(()));
        let why = "expected stopReason \"aborted\"; came null".to_owned();
        let came = expect_eq(&json!(null), &json!("aborted"), "stopReason");
        assert_eq!(came, Err(NotMet::Failed(why)));
    }
}
