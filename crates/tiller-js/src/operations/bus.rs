//! Operations of `pi.events` between engines, for one engine.

use std::rc::Rc;

use serde::Deserialize;

use super::{OpInput, OpOutput, OpReply, unknown};
use crate::engine_handle::{Backlogged, JsError};
use crate::engine_state::EngineState;

pub(super) fn sync(core: &Rc<EngineState>, name: &str, input: &OpInput) -> OpReply {
    match name {
        "listen" => {
            let (channel, listens): (String, bool) = input.read()?;
            core.bus.listen(&core.shared, channel, listens);
            Ok(OpOutput::Nothing)
        }
        "isHeard" => {
            let channel: String = input.read()?;
            Ok(OpOutput::json(&core.bus.is_heard(&core.shared, &channel)))
        }
        "tell" => {
            let BusMessage { channel, data } = input.read()?;
            let backlog_max = core.config.limits.backlog;
            let data = data.as_deref();
            let told = core.bus.tell(&core.shared, &channel, data, backlog_max, &core.memory);
            if let Err(Backlogged { is_news: true }) = told {
                let message = format!("dropped on {channel:?}: somebody is too far behind");
                let thrown = JsError { message, ..JsError::default() };
                core.report("<runtime>".into(), "events".into(), thrown);
            }
            Ok(OpOutput::Nothing)
        }
        _ => Err(unknown(name)),
    }
}

#[derive(Deserialize)]
struct BusMessage {
    channel: String,
    /// JSON, or `None` for an event without data.
    data: Option<String>,
}
