//! The outcome of a client's shell command at each level. xcsh also has the size of the output and
//! of the part that is shown.

use serde::{Serialize, Serializer};
use tiller_protocol::Level;
use tiller_tools::command::{BashOutcome, Extent};

/// An outcome for a client of the given level.
pub(crate) struct ShapedOutcome<'a> {
    pub(crate) outcome: &'a BashOutcome,
    pub(crate) level: Level,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Extents {
    total_lines: usize,
    total_bytes: usize,
    output_lines: usize,
    output_bytes: usize,
}

impl Serialize for ShapedOutcome<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shape<'a> {
            #[serde(flatten)]
            outcome: &'a BashOutcome,
            #[serde(flatten)]
            extents: Option<Extents>,
        }
        let extents = (self.level == Level::Xcsh).then(|| extents(self.outcome));
        Shape { outcome: self.outcome, extents }.serialize(serializer)
    }
}

fn extents(outcome: &BashOutcome) -> Extents {
    let shown = Extent::of(&outcome.output);
    let total = outcome.total.unwrap_or(shown);
    Extents {
        total_lines: total.lines,
        total_bytes: total.bytes,
        output_lines: shown.lines,
        output_bytes: shown.bytes,
    }
}
