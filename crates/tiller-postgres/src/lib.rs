//! Sessions in PostgreSQL: any host can take one up, and only one at a time writes it.
//!
//! [`Postgres`] is a [`Database`](tiller_session::Database) of `tiller-session`. A line of a session
//! is a row, byte for byte. Who may write a session is decided by a number, its *fence*: taking a
//! session over increases it, and each append names it, so a process that was paused or cut off
//! cannot write any more when another one has its session.
//!
//! Statements are single requests without named objects, locks or settings of a connection, so they
//! pass every pooler.

mod store;
mod options;
mod append;
mod claims;
mod create;
mod queries;
mod follow;
mod host;
mod schema;
mod shared;
mod background;
mod failure;

pub use options::Options;
pub use schema::{Initialized, PARTITIONS, Status};
pub use store::Postgres;

/// What addresses of sessions begin with: `postgres:ID`.
pub(crate) const SCHEME: &str = "postgres";
