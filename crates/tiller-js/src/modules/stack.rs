//! Maps stack traces to the author's source. Source maps are generated when an error needs one
//! instead of being kept: errors are rare and source maps are large.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Modules, builtin, split, transform};

/// Limit of lines, because an extension may assign `error.stack` itself.
const LINES_MAX: usize = 100;

/// A stack trace with the author's lines, and the position of its innermost frame.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Trace {
    pub at: Option<String>,
    pub stack: String,
}

/// Parses the engine's stack: lines such as `    at name (/a/b.ts?3:10:5)`. Frames of tiller's own
/// modules are left out.
pub(crate) fn trace(modules: &Modules, stack: &str) -> Trace {
    let mut sources = HashMap::new();
    let mut trace = Trace::default();
    for line in stack.lines().take(LINES_MAX) {
        let Some(frame) = Frame::read(line) else { continue };
        // The last two cases are the sidecar's boot script and frames without a position.
        let is_ours = builtin::is_id(frame.module) || frame.module.starts_with("facade:");
        if is_ours || frame.module.starts_with(['[', '<']) {
            continue;
        }
        let path = split(frame.module).0;
        let (line, column) =
            original_position(modules, &mut sources, path, frame.line, frame.column);
        let position = format!("{}:{line}:{column}", path.display());
        if !trace.stack.is_empty() {
            trace.stack.push('\n');
        }
        match frame.function {
            "" | "<anonymous>" => trace.stack += &format!("    at {position}"),
            function => trace.stack += &format!("    at {function} ({position})"),
        }
        trace.at.get_or_insert(position);
    }
    trace
}

struct Frame<'s> {
    function: &'s str,
    module: &'s str,
    line: u32,
    column: u32,
}

impl<'s> Frame<'s> {
    fn read(line: &'s str) -> Option<Frame<'s>> {
        let line = line.trim().strip_prefix("at ")?;
        let (function, position) =
            match line.strip_suffix(')').and_then(|line| line.rsplit_once(" (")) {
                Some((function, position)) => (function, position),
                None => ("", line),
            };
        let (rest, column) = position.rsplit_once(':')?;
        let (module, row) = rest.rsplit_once(':')?;
        Some(Frame { function, module, line: row.parse().ok()?, column: column.parse().ok()? })
    }
}

fn original_position(
    modules: &Modules,
    sources: &mut HashMap<PathBuf, Option<String>>,
    path: &Path,
    line: u32,
    column: u32,
) -> (u32, u32) {
    if modules.has_written_places() {
        return (line, column);
    }
    let source = sources.entry(path.to_owned()).or_insert_with(|| modules.text(path));
    let original = source.as_ref().and_then(|source| {
        transform::original_position(path, source, modules.nature(path), line, column)
    });
    original.unwrap_or((line, column))
}
