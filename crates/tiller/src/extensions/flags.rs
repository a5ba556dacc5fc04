//! The values of options that extensions have registered.

use serde_json::{Map, Value};
use tiller_js::{FlagKind, RegisteredFlag};

use crate::args::{ForeignFlag, unknown_options};

/// The values by name, and what is wrong with the rest of what was typed.
pub(crate) fn values(
    typed: &[ForeignFlag],
    known: &[RegisteredFlag],
) -> (Map<String, Value>, Vec<String>) {
    let (mut values, mut problems, mut unknown) = (Map::new(), Vec::new(), Vec::new());
    for ForeignFlag { name, value } in typed {
        let kind = known.iter().find(|flag| flag.name == *name).map(|flag| flag.kind);
        let value = match (kind, value) {
            (Some(FlagKind::Boolean), _) => Value::Bool(true),
            (Some(FlagKind::String), Some(text)) => Value::String(text.clone()),
            (Some(FlagKind::String), None) => {
                problems.push(format!("Extension flag \"--{name}\" requires a value"));
                continue;
            }
            (None, _) => {
                unknown.push(name.as_str());
                continue;
            }
        };
        values.insert(name.clone(), value);
    }
    problems.extend(unknown_options(unknown.into_iter()));
    (values, problems)
}
