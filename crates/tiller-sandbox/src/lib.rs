//! The sandbox: what the tools of a session may change, read and reach, enforced by the kernel.
//!
//! A [`Sandbox`] belongs to one working directory. It has a thread that has entered the sandbox and
//! starts a thread for each piece of work of a tool; and it puts a child into the sandbox between
//! fork and exec, below its guardian, so that the guardian stays outside. On Linux, Landlock decides
//! about files and signals, and seccomp about system calls. Elsewhere a sandbox is refused.
//!
//! What is promised is tried: a [`canary`] attempts to leave the sandbox before the first tool runs.
//! If it succeeds, no tool runs.

mod policy;
mod sandbox;
mod threads;
pub mod canary;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod elsewhere;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;
pub use policy::{Places, SandboxConfig};
pub use sandbox::{CanaryRunner, Sandbox};
