//! JavaScript engines for extensions. Extensions run in an embedded engine on its own thread,
//! started with the first extension, or in a sidecar if they need what only node or bun has.
//! Everything else they ask of a [`HostApi`](host_api::HostApi).
//!
//! Begin at `extensions.rs`, which is all that other crates call; then `engine_handle.rs` and
//! `engine_loop.rs`, the two ends of the channel to an engine; then `js/runtime/main.js`, where
//! JavaScript begins.
//!
//! ```text
//!  Extensions ── call, emit, abort ──▶ engine_loop ──▶ engine ──▶ js/runtime ──▶ handlers
//!     ▲                                  ▲  ▲                        │
//!     └───────────── replies ────────────┘  └─── operations ◀────────┘──▶ HostApi: session,
//!                                                files, timers            models, dialogs, HTTP
//! ```
//!
//! All extensions share one realm, as in pi, where some of them communicate through `globalThis`.
//! An extension with `isolate` or with restricted permissions has its own engine. An engine has
//! limits of memory and of time without a pause; an extension that exceeds them is interrupted and
//! reported, and no caller waits for it.

mod extensions;
pub mod host_api;
pub mod event;
pub mod hook;
mod config;
mod access;
mod registrations;
mod tool;
mod coalesce;
mod bus;
mod entry;
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
