//! What extensions say to each other across engines, from the side of one engine.

use std::rc::Rc;

use serde::Deserialize;

use super::{Answer, Asked, Given, unknown};
use crate::core::Core;
use crate::thread::{Behind, Thrown};

pub(super) fn sync(core: &Rc<Core>, name: &str, asked: &Asked) -> Answer {
    match name {
        "listen" => {
            let (channel, listens): (String, bool) = asked.read()?;
            core.bus.listen(&core.shared, channel, listens);
            Ok(Given::Nothing)
        }
        "isHeard" => {
            let channel: String = asked.read()?;
            Ok(Given::json(&core.bus.is_heard(&core.shared, &channel)))
        }
        "tell" => {
            let Said { channel, data } = asked.read()?;
            let backlog_max = core.config.limits.backlog;
            let data = data.as_deref();
            let told = core.bus.tell(&core.shared, &channel, data, backlog_max, &core.memory);
            if let Err(Behind { is_news: true }) = told {
                let message = format!("dropped on {channel:?}: somebody is too far behind");
                let thrown = Thrown { message, ..Thrown::default() };
                core.report("<runtime>".into(), "events".into(), thrown);
            }
            Ok(Given::Nothing)
        }
        _ => Err(unknown(name)),
    }
}

#[derive(Deserialize)]
struct Said {
    channel: String,
    /// As JSON; nothing where nothing was said.
    data: Option<String>,
}
