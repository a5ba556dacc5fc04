//! The laws of a store, for PostgreSQL, and what PostgreSQL alone has: tables, their check,
//! connections and TLS. Lost connections and dead hosts are tested in `faults.rs`.
#![allow(clippy::unwrap_used)]

#[path = "../../tiller-session/tests/common/mod.rs"]
mod common;
#[macro_use]
#[path = "../../tiller-session/tests/conformance/mod.rs"]
mod conformance;
#[path = "../../tiller/tests/support/postgres.rs"]
mod postgres;
#[path = "../../tiller/tests/support/skip.rs"]
mod skip;

#[path = "conformance/test_store.rs"]
mod test_store;
#[path = "conformance/tables.rs"]
mod tables;
#[path = "conformance/creation.rs"]
mod creation;
#[path = "conformance/connections.rs"]
mod connections;
#[path = "conformance/tls.rs"]
mod tls;

use std::path::PathBuf;
use std::sync::Arc;

use common::owner_of;
use tiller_postgres::{Options, Postgres};
use tiller_session::DatabaseStore;

/// The process that a law starts and kills; not a test by itself.
#[test]
fn child() {
    conformance::crash::child(|url| {
        let postgres = Postgres::start(Options::read(url).unwrap(), owner_of(8)).unwrap();
        let scratch: PathBuf = std::env::temp_dir();
        Box::new(DatabaseStore::new(Arc::new(postgres), scratch))
    });
}

mod store {
    conformance_tests! { crate::test_store::InPostgres::new() }
    transfer_tests! { crate::test_store::InPostgres::new() }
}
