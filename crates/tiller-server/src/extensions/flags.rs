//! Options registered by extensions: their values, and their part of `--help`.

use serde_json::{Map, Value};
use tiller_js::{FlagKind, RegisteredFlag};

/// Extension flags of the command line.
#[derive(Clone, Debug, Default)]
pub struct ExtensionFlags {
    /// Paths of `-e`.
    pub paths: Vec<String>,
    /// Do not load extensions from the default folders.
    pub only_these: bool,
    /// Load none, because of the sandbox: they would run in this process, outside of it.
    pub are_refused: bool,
    /// Exit if an extension cannot be loaded.
    pub is_strict: bool,
    /// Options that extensions may have registered.
    pub unknown_flags: Vec<ExtensionFlag>,
}

/// An unknown option, as typed.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtensionFlag {
    /// Without its dashes.
    pub name: String,
    /// What follows `=`.
    pub value: Option<String>,
}

/// The values by name, and the problems with the rest.
pub(crate) fn values(
    typed: &[ExtensionFlag],
    known: &[RegisteredFlag],
) -> (Map<String, Value>, Vec<String>) {
    let mut values = Map::new();
    let mut problems = Vec::new();
    let mut unknown = Vec::new();
    for ExtensionFlag { name, value } in typed {
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

/// The help text of these options, in the format of the other groups.
pub fn help(flags: &[RegisteredFlag]) -> String {
    let option = |flag: &RegisteredFlag| match flag.kind {
        FlagKind::Boolean => format!("--{}", flag.name),
        FlagKind::String => format!("--{} <VALUE>", flag.name),
    };
    let width = flags.iter().map(|flag| option(flag).chars().count()).max().unwrap_or_default();
    let line = |flag: &RegisteredFlag| {
        let about = flag.description.as_deref().filter(|about| !about.trim().is_empty());
        let about = about.map(|about| about.split_whitespace().collect::<Vec<_>>().join(" "));
        let about = about.unwrap_or_else(|| format!("Registered by {}", flag.extension_path));
        format!("      {:width$}  {about}\n", option(flag))
    };
    if flags.is_empty() {
        String::new()
    } else {
        format!("\nExtension options:\n{}", flags.iter().map(line).collect::<String>())
    }
}

/// The error for unknown options.
pub fn unknown_options<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<String> = names.map(|name| format!("--{name}")).collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("Unknown option: {name}")),
        names => Some(format!("Unknown options: {}", names.join(", "))),
    }
}
