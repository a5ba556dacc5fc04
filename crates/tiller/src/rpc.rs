//! The conversation with the client: lines in, lines out, one owner of everything in between.
//!
//! A line's way: [`lines`] → [`wire`] → [`server`] → [`dispatch`] → [`handlers`], from there into
//! the agent's run, whose events come back through [`server`] to [`wire`] and [`out`].

pub mod lines;
pub mod wire;
pub mod server;
mod leaving;
mod dispatch;
mod parked;
mod handlers;
mod state;
mod storing;
mod here;
mod toolbox;
mod host_tools;
mod todos;
mod todo_tool;
mod queues;
mod commands;
mod after_run;
mod asker;
mod change;
mod navigation;
mod retry;
mod ttsr;
mod compaction;
pub mod guests;
mod link;
mod modes;
pub mod out;
pub mod stdio;

pub(crate) use state::model_change;
pub(crate) use todo_tool::NAME as TODO_TOOL;
