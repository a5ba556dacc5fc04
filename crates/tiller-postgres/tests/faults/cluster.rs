//! PostgreSQL servers for the tests, each with a database that has tiller's tables.

use std::sync::OnceLock;

use crate::host::Host;
use crate::ledger::Ledger;
use crate::postgres::{self, Cluster};
use crate::proxy::Proxy;
use crate::rounds::Totals;

/// A database on a server that accepts connections by TCP.
pub struct Database {
    pub cluster: Cluster,
    /// By TCP.
    pub url: String,
}

/// The database that tests share which do not stop the server.
pub fn database() -> Option<&'static Database> {
    static SHARED: OnceLock<Option<Database>> = OnceLock::new();
    SHARED.get_or_init(|| Database::start(&[])).as_ref()
}

impl Database {
    /// Starts a server with these settings.
    pub fn start(options: &[(&str, &str)]) -> Option<Database> {
        let mut all = vec![("listen_addresses", "127.0.0.1"), ("max_connections", "400")];
        all.extend(options);
        let cluster = postgres::start(&all)?;
        cluster.sql("postgres", "create database faults");
        let url = cluster.tcp_url("faults");
        Host::new("init", &url).postgres.init(4).unwrap();
        Some(Database { cluster, url })
    }

    /// A proxy before the server.
    pub fn proxy(&self) -> Proxy {
        let (_, port) = self.url.rsplit_once(':').unwrap();
        Proxy::start(port.split('/').next().unwrap().parse().unwrap())
    }

    pub fn sql(&self, statement: &str) -> String {
        self.cluster.sql(&self.url, statement)
    }

    /// Compares sessions with what the database has, and the database with itself, and deletes them.
    pub fn close(&self, sessions: Vec<Ledger>, host: &Host) -> Totals {
        assert_eq!(host.postgres.check().unwrap(), Vec::<String>::new());
        let mut totals = Totals::default();
        for ledger in sessions {
            totals.add(ledger.close(&self.cluster, &self.url, host));
        }
        totals
    }
}
