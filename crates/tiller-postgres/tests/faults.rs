//! Faults: hosts that are killed or paused, lost connections, a database that restarts or has no
//! room, and hosts that claim the same session at once. No acknowledged entry is lost or stored
//! twice, and no process writes a session that another one has claimed.
//!
//! `TILLER_FAULT_ROUNDS=1000` runs a thousand rounds instead of a few; each kind of fault prints its
//! totals.
#![allow(clippy::unwrap_used)]

#[path = "../../tiller/tests/support/postgres.rs"]
mod postgres;
#[path = "../../tiller/tests/support/skip.rs"]
mod skip;

#[path = "faults/rounds.rs"]
mod rounds;
#[path = "faults/cluster.rs"]
mod cluster;
#[path = "faults/host.rs"]
mod host;
#[path = "faults/writer.rs"]
mod writer;
#[path = "faults/ledger.rs"]
mod ledger;
#[path = "faults/frames.rs"]
mod frames;
#[path = "faults/proxy.rs"]
mod proxy;
#[path = "faults/processes.rs"]
mod processes;
#[path = "faults/connections.rs"]
mod connections;
#[path = "faults/partitions.rs"]
mod partitions;
#[path = "faults/full_disk.rs"]
mod full_disk;
#[path = "faults/claims.rs"]
mod claims;

#[path = "faults/late.rs"]
mod late;
#[path = "faults/ownership.rs"]
mod ownership;
#[path = "faults/batches.rs"]
mod batches;
#[path = "faults/limits.rs"]
mod limits;
#[path = "faults/requests.rs"]
mod requests;

/// The process of a writer; not a test by itself.
#[test]
fn writer_process() {
    writer::run();
}
