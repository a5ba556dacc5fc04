//! Stored sessions: a conversation is a tree of entries, stored in a file of JSON lines that pi can
//! also read and write, or line by line in a database.
//!
//! [`Store`] is where sessions are: [`FileStore`] or [`DatabaseStore`].
//!
//! A [`Session`] is a tree with optional storage. It is opened or created, appended to, and asked
//! for its context; every call is synchronous and, unless documented otherwise, quick. The lines of
//! a stored session stay in the file: memory holds their offsets and the links between them.
//!
//! This crate reads no home directory, no environment and no clock. The caller passes in folders,
//! owner and time.

mod tree;
pub mod entry;
mod head;
mod json_skip;
mod session;
mod files;
mod file;
mod sibling_file;
mod log;
mod spool;
mod lock;
mod open;
mod scan;
mod lines;
mod migrate;
mod fields;
mod context;
mod message_line;
mod xcsh;
mod blobs;
mod rules;
mod custom_data;
mod stats;
mod stream;
mod outline;
mod page;
mod fork;
mod branch_diff;
pub mod list;
mod store;
mod file_store;
pub mod database;
mod row;
mod database_store;
pub mod transfer;
pub mod check;
pub mod paths;
mod name;
mod problem;
mod error;

pub use branch_diff::BranchDiff;
pub use context::{Context, ContextMessage, ForkMessage};
pub use database::Database;
pub use database_store::DatabaseStore;
pub use entry::{Body, BranchSummary, Compaction, Entry, Header};
pub use error::Error;
pub use file::Syncer;
pub use file_store::FileStore;
pub use files::{FileSystem, Files};
pub use fork::{DAMAGE_MARK, Forked};
pub use lock::Owner;
pub use name::SessionId;
pub use outline::Outline;
pub use page::{Page, PageRange, PageSpace};
pub use problem::Problem;
pub use row::Row;
pub use session::{LEAF_MARK, NewSession, Session, Storage};
pub use stats::{Stats, Tokens};
pub use store::Store;
pub use tiller_agent::durability::Durability;
pub use tiller_agent::time;
