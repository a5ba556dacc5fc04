//! JavaScript. Extensions will live in this crate, in an engine that starts only when there is
//! one; today there is nothing here, and nothing else depends on it.
