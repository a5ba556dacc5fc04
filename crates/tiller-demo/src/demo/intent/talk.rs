//! Requests without tools: arithmetic, counting, a story, greetings.

use super::{Known, Task};
use crate::demo::sums;
use crate::demo::words::Clause;

pub(super) fn sum(clause: &Clause, _: &Known) -> Option<Task> {
    let (sum, value) = sums::read(clause.whole())?;
    Some(Task::Sum { sum, value })
}

/// "count to 20", "count from 1 to 20"
pub(super) fn count(clause: &Clause, _: &Known) -> Option<Task> {
    let to = clause.position("to").filter(|_| clause.begins("count"))?;
    let number: u32 = clause.words.get(to + 1)?.key.parse().ok()?;
    Some(Task::Count { to: number.clamp(1, 1000) })
}

pub(super) fn story(clause: &Clause, _: &Known) -> Option<Task> {
    let asked = clause.begins("tell write give say make sing story poem");
    let art = clause.has("story poem tale haiku joke song something");
    (asked && art).then_some(Task::Story)
}

pub(super) fn help(clause: &Clause, _: &Known) -> Option<Task> {
    const ASKING: &str = "what can you/what do you do/what are you/who are you/how do you work/\
                          what else/how can you help/what should i/are you real/what model/\
                          which model/about yourself/what tools/which tools";
    let asked = clause.phrase(ASKING).is_some() || clause.begins("help demo usage");
    asked.then_some(Task::Help)
}

pub(super) fn manners(clause: &Clause, _: &Known) -> Option<Task> {
    let good = clause.begins("good");
    if clause.begins("hi hello hey hiya greetings howdy moin")
        || clause.phrase("how are you").is_some()
        || (good && clause.has("morning afternoon evening day"))
    {
        Some(Task::Greet)
    } else if clause.begins("bye goodbye ciao cheers")
        || (good && clause.has("night bye"))
        || clause.phrase("see you").is_some()
    {
        Some(Task::Bye)
    } else if good || clause.begins("thanks thank thx great nice cool perfect wonderful well") {
        Some(Task::Thanks)
    } else {
        None
    }
}
