//! Operations of `pi.events` between engines, for one engine.

use std::rc::Rc;

use serde::Deserialize;

use super::{OpInput, OpOutput, OpReply, unknown};
use crate::engine_handle::{Backlogged, JsError};
use crate::engine_state::EngineState;

pub(super) fn sync(state: &Rc<EngineState>, name: &str, input: &OpInput) -> OpReply {
    match name {
        "listen" => {
            let (channel, listens): (String, bool) = input.read()?;
            state.bus.listen(&state.shared, channel, listens);
            Ok(OpOutput::Nothing)
        }
        "hasListener" => {
            let channel: String = input.read()?;
            Ok(OpOutput::json(&state.bus.has_listener(&state.shared, &channel)))
        }
        "emit" => {
            let BusMessage { channel, data } = input.read()?;
            let backlog_max = state.config.limits.backlog;
            let data = data.as_deref();
            let sent = state.bus.emit(&state.shared, &channel, data, backlog_max, &state.memory);
            if let Err(Backlogged { is_first: true }) = sent {
                let message = format!("dropped on {channel:?}: another engine is too far behind");
                let thrown = JsError { message, ..JsError::default() };
                state.report("<runtime>".into(), "events".into(), thrown);
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
