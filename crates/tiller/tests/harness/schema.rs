//! Every line fits the JSON Schema of its level.

use serde_json::Value;
use tiller_protocol::{Line, Request};

use super::corpus;
use crate::schema::{fits, name_of_command, name_of_record};

/// Checks a record of the server.
pub fn check_record(level: &str, record: &Value) -> Result<(), String> {
    let name = name_of_record(record);
    fits(level, &name, record)?;
    corpus::add(level, name, record);
    Ok(())
}

/// Checks a command that tiller accepts, as `tiller-protocol` writes it.
pub fn check_command(level: &str, line: &str) -> Result<(), String> {
    let request = Request::read(Line::Text(line.as_bytes().to_vec()));
    let Some(command) = request.and_then(|request| request.command.ok()) else { return Ok(()) };
    let line: Value = serde_json::from_str(&command.to_line(Some("1"))).unwrap();
    let name = name_of_command(command.name());
    fits(level, &name, &line)?;
    corpus::add(level, name, &line);
    Ok(())
}
