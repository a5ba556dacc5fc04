//! The result of the suite as a table, or as JSON.

use serde::Serialize;

use super::check::{CheckResult, Status};

/// The result as `--json` prints it.
#[derive(Serialize)]
pub(super) struct SuiteReport {
    /// The command line that started the server.
    server: String,
    wire: &'static str,
    checks: Vec<CheckResult>,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl SuiteReport {
    pub(super) fn new(server: String, wire: &'static str, checks: Vec<CheckResult>) -> SuiteReport {
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        let passed = count(Status::Ok);
        let failed = count(Status::Failed);
        let skipped = count(Status::Skipped);
        SuiteReport { server, wire, checks, passed, failed, skipped }
    }

    pub(super) fn to_json(&self) -> Result<String, String> {
        let json = serde_json::to_string(self);
        json.map(|json| json + "\n").map_err(|err| format!("cannot write the result: {err}"))
    }

    /// One line per check, the reason below a check that did not pass, and the counts.
    pub(super) fn to_table(&self) -> String {
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        let mut text = format!("{} (wire {})\n\n", self.server, self.wire);
        for check in &self.checks {
            let status = match check.status {
                Status::Ok => "ok",
                Status::Failed => "FAILED",
                Status::Skipped => "skipped",
            };
            text += &format!("{:<10}  {:<width$}  {status}\n", check.group.name(), check.name);
            if let Some(detail) = &check.detail {
                text += &format!("            {detail}\n");
            }
        }
        let SuiteReport { passed, failed, skipped, .. } = self;
        text + &format!("\n{passed} passed, {failed} failed, {skipped} skipped\n")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check::Group;
    use super::*;

    fn report() -> SuiteReport {
        let check = |group, name, status, detail: Option<&str>| CheckResult {
            group,
            name,
            status,
            detail: detail.map(str::to_owned),
        };
        let checks = vec![
            check(Group::Framing, "blank lines are ignored", Status::Ok, None),
            check(Group::Eof, "EOF ends it", Status::Failed, Some("expected an exit; it runs")),
            check(Group::HostTools, "a call", Status::Skipped, Some("there are none")),
        ];
        SuiteReport::new("pi --mode rpc".into(), "pi", checks)
    }

    #[test]
    fn table_has_a_line_per_check_and_the_counts() {
        expect![[r#"
            pi --mode rpc (wire pi)

            framing     blank lines are ignored  ok
            eof         EOF ends it              FAILED
                        expected an exit; it runs
            host-tools  a call                   skipped
                        there are none

            1 passed, 1 failed, 1 skipped
        "#]]
        .assert_eq(&report().to_table());
    }

    #[test]
    fn json_is_one_line() {
        expect![[r#"
            {"server":"pi --mode rpc","wire":"pi","checks":[{"group":"framing","name":"blank lines are ignored","status":"ok"},{"group":"eof","name":"EOF ends it","status":"failed","detail":"expected an exit; it runs"},{"group":"host-tools","name":"a call","status":"skipped","detail":"there are none"}],"passed":1,"failed":1,"skipped":1}
        "#]]
        .assert_eq(&report().to_json().unwrap());
    }
}
