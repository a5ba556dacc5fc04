//! JavaScript. Extensions are guests: they run here, in an engine on a thread of its own that is
//! started with the first of them, or beside us where they need what only node or bun has. What
//! they want of the outside they ask of a [`World`](world::World).
//!
//! Begin at `guests.rs`, which is all that others call; then `thread.rs` and `host.rs`, the two
//! sides of the channel to an engine; then `js/runtime/main.js`, where JavaScript begins.
//!
//! ```text
//!  Guests ── call, emit, abort ──▶ host ──▶ engine ──▶ js/runtime ──▶ the extension's handlers
//!     ▲                             ▲  ▲                   │
//!     └────────── replies ──────────┘  └── operations ◀────┘──▶ World: session, models, dialogs,
//!                                          files, timers        HTTP, children
//! ```
//!
//! One realm is shared by all extensions, as in pi, where some of them talk through `globalThis`;
//! one that wants `isolate`, or that may not do everything, has an engine of its own. An engine
//! has a limit of memory and of time without a pause; who exceeds it is interrupted and reported,
//! and nobody outside waits for it.

mod guests;
pub mod world;
pub mod event;
pub mod hook;
mod config;
mod access;
mod registrations;
mod tool;
mod progress;
mod bus;
mod thread;
mod mailbox;
mod host;
mod core;
mod memory;
mod engine;
mod bindings;
mod modules;
mod operations;

pub use config::{
    Config, Engine, EngineClock, Extension, HookObserver, HookTiming, Limits, Permissions, Runtime,
};
pub use guests::{Guests, LoadReport, Refused};
pub use progress::{Events, Melts, Newest, Progress, Text};
pub use registrations::{
    FlagKind, LoadError, LoadedExtension, Provider, RegisteredCommand, RegisteredFlag,
    RegisteredShortcut, RegisteredTool, Registrations,
};
