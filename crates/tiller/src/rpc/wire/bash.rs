//! What came of a client's own shell command, as a level writes it. xcsh also says how much output
//! there was and how much of it is shown.

use serde::{Serialize, Serializer};
use tiller_tools::command::{BashOutcome, Extent};

use super::Level;

/// An outcome on its way to a client of the given level.
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
    let whole = outcome.whole.unwrap_or(shown);
    Extents {
        total_lines: whole.lines,
        total_bytes: whole.bytes,
        output_lines: shown.lines,
        output_bytes: shown.bytes,
    }
}
