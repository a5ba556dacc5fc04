//! The types of `tiller-protocol` say the same as the lines: what a Rust client parses, it would
//! write with the same bytes.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tiller_protocol::{Command, Line, Record, Request};

/// A record of the server is known, and its type writes the same line.
pub fn check_record(line: &str) -> Result<(), String> {
    let line = unstamped(line);
    let record: Record<'_> =
        serde_json::from_str(&line).map_err(|err| format!("no record: {line}: {err}"))?;
    if matches!(record, Record::Unknown(_)) {
        return Err(format!("not a record of tiller-protocol: {line}"));
    }
    let written = serde_json::to_string(&record).map_err(|err| err.to_string())?;
    if written == respelled(&line)? {
        return Ok(());
    }
    Err(format!("tiller-protocol writes a record in another way:\n{line}\n{written}"))
}

/// The line without the fields that any record may carry at its end.
pub fn unstamped(line: &str) -> String {
    let stamps = [",\"cut\":{\"recordId\"", ",\"seq\":"].map(|stamp| line.rfind(stamp));
    let end = stamps.into_iter().flatten().min().unwrap_or(line.len() - 1);
    format!("{}}}", &line[..end])
}

/// The line with its `id` as `serde_json` spells it: the server returns a client's `1.50`.
fn respelled(line: &str) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow, default)]
        id: Option<&'a RawValue>,
    }
    let Envelope { id } = serde_json::from_str(line).map_err(|err| err.to_string())?;
    let Some(id) = id.map(RawValue::get) else { return Ok(line.to_owned()) };
    let value: Value = serde_json::from_str(id).map_err(|err| err.to_string())?;
    Ok(line.replacen(id, &value.to_string(), 1))
}

/// A valid command is the same command after it was written and parsed again.
pub fn check_command(line: &str) -> Result<(), String> {
    let parse = |line: &str| {
        let request = Request::read(Line::Text(line.as_bytes().to_vec()));
        request.and_then(|request| request.command.ok())
    };
    let Some(command) = parse(line) else { return Ok(()) };
    let written = command.to_line(Some("1"));
    let by_serde: Command = serde_json::from_str(&written).map_err(|err| err.to_string())?;
    if parse(&written).as_ref() == Some(&command) && by_serde == command {
        return Ok(());
    }
    Err(format!("tiller-protocol writes another command:\n{line}\n{written}"))
}
