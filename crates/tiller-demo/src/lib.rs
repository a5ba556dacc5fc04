//! The built-in models: [`demo`] reads the request and really uses the tools, [`script`] plays a
//! file. Both implement `tiller_agent::provider::Provider` and touch nothing outside memory.

pub mod demo;
pub mod script;
