//! `tiller store init`, `tiller store check` and `tiller store status`: the tables of a database with
//! sessions.

use clap::{Args, Parser};
use tiller_postgres::{Initialized, PARTITIONS, Postgres, Status};
use tiller_server::clock::Clock;

use crate::launch::ProcessEnv;
use crate::session_command::print;
use crate::stores::{NO_DATABASE, StoreChoice};

/// Manage the database in which sessions are stored
#[derive(Debug, Parser)]
#[command(
    name = "tiller store",
    disable_version_flag = true,
    after_help = include_str!("../texts/store-examples.md")
)]
pub enum StoreCommand {
    /// Make the tables, or bring those of an older tiller up to date
    Init {
        #[command(flatten)]
        place: StorePlace,
        /// How many tables the entries are divided among; it cannot be changed later
        #[arg(long, value_name = "N", default_value_t = PARTITIONS, value_parser = clap::value_parser!(u32).range(1..=4096))]
        partitions: u32,
    },
    /// Compare all sessions with their lines, without changing anything
    Check {
        #[command(flatten)]
        place: StorePlace,
    },
    /// Show the version of the tables, what they hold, and which processes use them
    Status {
        #[command(flatten)]
        place: StorePlace,
    },
}

/// Which database is meant.
#[derive(Debug, Args)]
pub struct StorePlace {
    /// The database, as a URL [default: TILLER_STORE, or the setting `store`]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

impl StoreCommand {
    /// Runs the command. Returns the exit code: 1 if a check found damage.
    pub fn run(self, env: &ProcessEnv) -> Result<u8, String> {
        match self {
            StoreCommand::Init { place, partitions } => {
                let Initialized { from, to } = place.open(env)?.init(partitions)?;
                let line = match from {
                    from if from == to => format!("The tables are up to date (version {to})."),
                    0 => format!("Made the tables (version {to})."),
                    from => format!("Brought the tables from version {from} to version {to}."),
                };
                print([line].into_iter())?;
                Ok(0)
            }
            StoreCommand::Check { place } => {
                let problems = place.open(env)?.check()?;
                if problems.is_empty() {
                    print(["All sessions have all their lines.".to_owned()].into_iter())?;
                    return Ok(0);
                }
                print(problems.into_iter())?;
                Ok(1)
            }
            StoreCommand::Status { place } => {
                print(lines(&place.open(env)?.status()?).into_iter())?;
                Ok(0)
            }
        }
    }
}

impl StorePlace {
    fn open(&self, env: &ProcessEnv) -> Result<Postgres, String> {
        let env = env.clone().with_store(self.store.as_deref());
        match env.store_choice(false, &env.settings())? {
            StoreChoice::Database(url) => env.databases().open(&url, env.owner(Clock::System)),
            StoreChoice::Files => Err(NO_DATABASE.to_owned()),
        }
    }
}

/// The status in lines.
fn lines(status: &Status) -> Vec<String> {
    let Status { database, version, known_version, .. } = status;
    let state = match version {
        0 => "no tables; run `tiller store init`".to_owned(),
        version if version == known_version => format!("version {version}, up to date"),
        version => format!("version {version}, this tiller knows {known_version}"),
    };
    let mut lines = vec![format!("database   {database}"), format!("tables     {state}")];
    if *version > 0 {
        let Status { sessions, owned, lines: entries, bytes, table_bytes, hosts, .. } = status;
        lines.push(format!("sessions   {sessions}, {owned} of them open"));
        lines.push(format!("lines      {entries}, {} KB of text", bytes / 1000));
        lines.push(format!("on disk    {} KB with indexes", table_bytes / 1000));
        lines.push(format!("processes  {}", hosts.len()));
        lines.extend(hosts.iter().map(|host| format!("           {host}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn status_is_a_few_lines() {
        let status = Status {
            database: "ada@db.example.com/work (schema tiller)".to_owned(),
            version: 1,
            known_version: 1,
            sessions: 12,
            owned: 2,
            lines: 3400,
            bytes: 5_600_000,
            table_bytes: 9_000_000,
            hosts: vec!["tiller 1.0.0 (pid 7 on host-a, started 2026-11-19T02:00:00Z)".to_owned()],
        };
        expect![[r#"
            database   ada@db.example.com/work (schema tiller)
            tables     version 1, up to date
            sessions   12, 2 of them open
            lines      3400, 5600 KB of text
            on disk    9000 KB with indexes
            processes  1
                       tiller 1.0.0 (pid 7 on host-a, started 2026-11-19T02:00:00Z)"#]]
        .assert_eq(&lines(&status).join("\n"));
        let empty = Status { version: 0, ..status };
        expect![[r#"
            database   ada@db.example.com/work (schema tiller)
            tables     no tables; run `tiller store init`"#]]
        .assert_eq(&lines(&empty).join("\n"));
    }
}
