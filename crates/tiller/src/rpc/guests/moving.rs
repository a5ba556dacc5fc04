//! A session that works in another folder. The extensions are those of that folder from then on,
//! all of them loaded anew; whoever is not of the project may judge it first.

use std::sync::Arc;

use tiller_js::event::StartReason;

use super::{State, Wish};
use crate::extensions::find::Discovery;
use crate::rpc::server::Input;

/// How extensions are told of the session they come to.
pub(super) struct Journey {
    pub(super) reason: StartReason,
    pub(super) previous: Option<String>,
}

impl Default for Journey {
    fn default() -> Journey {
        Journey { reason: StartReason::Startup, previous: None }
    }
}

impl State {
    /// The session is in another folder. They follow when somebody has looked who there is.
    pub(in crate::rpc) fn await_guests(&mut self, reason: StartReason, previous: Option<String>) {
        if self.visitors.around.is_some() {
            self.visitors.is_moving = true;
            self.visitors.journey = Some(Journey { reason, previous });
        }
    }

    /// Somebody has looked, or could not: then those there are come along.
    pub(in crate::rpc) fn follow_guests(&mut self, discovery: Option<Discovery>) {
        let Some(Journey { reason, previous }) = self.visitors.journey.take() else { return };
        let is_alone = self.visitors.guests.is_none();
        let Some(Discovery { found, problems }) = discovery else {
            return match is_alone {
                true => self.guests_are_ready(),
                false => self.move_guests(reason, previous),
            };
        };
        self.not_found(problems);
        if is_alone && found.is_empty() {
            return self.guests_are_ready();
        }
        let Some(guests) = self.guests() else { return };
        self.visitors.journey = Some(Journey { reason, previous });
        self.visitors.found = found.into_iter().map(Arc::new).collect();
        self.visitors.next_turn.clear();
        self.visitors.stock.forget();
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            guests.retire().await;
            // A server that no longer listens has ended.
            inputs.send(Input::Guest(Box::new(Wish::Retired))).await.ok();
        });
    }

    /// Those of the folder that was left are out of the way.
    pub(super) fn settle_here(&mut self) {
        let may_judge = self.here.asks_for_trust();
        if let Some(guests) = self.guests() {
            self.bring_in(guests, may_judge);
        }
    }
}
