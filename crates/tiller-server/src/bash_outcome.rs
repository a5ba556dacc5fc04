//! The outcome of a client's shell command at each level. xcsh also has the size of the output and
//! of the part that is shown.

use tiller_protocol::Level;
use tiller_protocol::data::BashData;
use tiller_tools::command::{BashOutcome, Extent};

/// An outcome for a client of the given level.
pub(crate) fn shaped(outcome: &BashOutcome, level: Level) -> BashData<'_> {
    let shown = (level == Level::Xcsh).then(|| Extent::of(&outcome.output));
    let total = shown.map(|shown| outcome.total.unwrap_or(shown));
    BashData {
        output: outcome.output.as_str().into(),
        exit_code: outcome.exit_code,
        cancelled: outcome.cancelled,
        truncated: outcome.truncated,
        full_output_path: outcome.full_output_path.as_deref().map(Into::into),
        total_lines: total.map(|total| total.lines),
        total_bytes: total.map(|total| total.bytes),
        output_lines: shown.map(|shown| shown.lines),
        output_bytes: shown.map(|shown| shown.bytes),
    }
}
