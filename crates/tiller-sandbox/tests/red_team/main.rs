//! Attempts to leave the sandbox, made for real: each by a process of its own that has entered it
//! like a program of a tool. An attempt either fails with a refusal of the kernel, or a sentence of
//! the report says that it is not covered.
//!
//! This program is its own victim and attacker: `attempt NAME` makes one attempt and prints how it
//! ended. It needs Linux with Landlock; elsewhere it says that it is skipped, and fails if
//! `TILLER_SANDBOX_TESTS` is `required`.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

#[cfg(target_os = "linux")]
mod attempts;
#[cfg(target_os = "linux")]
mod suite;
#[cfg(target_os = "linux")]
#[path = "../../../tiller/tests/support/skip.rs"]
mod skip;

fn main() {
    #[cfg(target_os = "linux")]
    suite::main();
    #[cfg(not(target_os = "linux"))]
    eprintln!("skipped: the sandbox needs Linux");
}
