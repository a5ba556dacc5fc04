//! JavaScript. Extensions are guests: they run here, in an engine on a thread of its own that is
//! started with the first of them, or beside us where they need what only node or bun has. What
//! they want of the outside they ask of a [`HostApi`](world::HostApi).
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

mod extensions;
pub mod world;
pub mod event;
pub mod hook;
mod config;
mod access;
mod registrations;
mod tool;
mod coalesce;
mod bus;
mod engine_handle;
mod mailbox;
mod engine_loop;
mod engine_state;
mod memory;
mod engine;
mod bindings;
mod modules;
mod operations;

pub use coalesce::{Coalesce, JoinDeltas, JoinText, KeepNewest, Progress};
pub use config::{
    Config, EngineChoice, EngineClock, Extension, HookObserver, HookTiming, Limits, Permissions,
    Runtime,
};
pub use extensions::{Extensions, HookRefused, LoadReport};
pub use registrations::{
    FlagKind, LoadError, LoadedExtension, Provider, RegisteredCommand, RegisteredFlag,
    RegisteredShortcut, RegisteredTool, Registrations,
};
