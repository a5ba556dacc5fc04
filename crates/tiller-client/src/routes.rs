//! Decides who gets a record: requests wait for responses, turns and streams for events. Nothing
//! here reads or writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use tiller_protocol::{Block, Disposition, DispositionData, Message, Record, Response};
use tokio::sync::oneshot;

use crate::events::{Event, EventSender};
use crate::requester::Shared;
use crate::turn::PromptResult;

/// The request table, the turns and the streams of one connection.
pub(crate) struct Routes {
    shared: Arc<Shared>,
    /// Requests without a response, by their number.
    waiting: BTreeMap<u64, WaitingRequest>,
    /// Prompts without a result, by the number of their request.
    turns: BTreeMap<u64, TurnRoute>,
    streams: Vec<EventSender>,
}

struct WaitingRequest {
    command: &'static str,
    reply: oneshot::Sender<Response<'static>>,
}

/// One prompt from its command to its `prompt_result`.
pub(crate) struct TurnRoute {
    /// The `id` of the command.
    id: String,
    client_message_id: String,
    phase: Phase,
    /// Absent if the turn was dropped, or its reader is too slow.
    events: Option<EventSender>,
    result: oneshot::Sender<PromptResult>,
    /// The text of the newest answer.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no response yet.
    Sent,
    /// Events are for it from its own message on.
    Queued,
    /// All events are for it.
    Running,
}

impl Routes {
    pub(crate) fn new(shared: Arc<Shared>) -> Routes {
        Routes { shared, waiting: BTreeMap::new(), turns: BTreeMap::new(), streams: Vec::new() }
    }

    /// Adds a request that was sent.
    pub(crate) fn add_request(
        &mut self,
        number: u64,
        command: &'static str,
        reply: oneshot::Sender<Response<'static>>,
        turn: Option<TurnRoute>,
    ) {
        self.waiting.insert(number, WaitingRequest { command, reply });
        if let Some(turn) = turn {
            self.turns.insert(number, turn);
        }
    }

    pub(crate) fn add_stream(&mut self, stream: EventSender) {
        self.streams.push(stream);
    }

    /// Passes a response to its request. Returns false if it belongs to none.
    pub(crate) fn respond(&mut self, response: &Response<'static>) -> bool {
        let Some(number) = self.request_of(response) else { return false };
        let Some(request) = self.waiting.remove(&number) else { return false };
        if response.success {
            let data = response.read::<Option<DispositionData>>().ok().flatten();
            let is_queued = data.is_some_and(|data| data.disposition == Disposition::Queued);
            if let Some(turn) = self.turns.get_mut(&number) {
                turn.phase = if is_queued { Phase::Queued } else { Phase::Running };
            }
        } else {
            self.turns.remove(&number);
        }
        // The caller may have stopped waiting.
        request.reply.send(response.clone()).ok();
        true
    }

    /// The request that a response belongs to. A refusal may lack the `id`: level `xcsh` leaves it
    /// out if the command is unknown. It is for the oldest request with that command.
    fn request_of(&self, response: &Response<'static>) -> Option<u64> {
        let Some(id) = &response.id else {
            let is_of = |request: &WaitingRequest| request.command == response.command;
            let mut waiting = self.waiting.iter().filter(|_| !response.success);
            return waiting.find(|(_, request)| is_of(request)).map(|(number, _)| *number);
        };
        self.shared.number(&id.read::<String>().ok()?)
    }

    /// Passes an event to the turns it is for and to all streams.
    pub(crate) fn publish(&mut self, event: &Event) {
        let mut ended = Vec::new();
        for (number, turn) in &mut self.turns {
            if turn.receive(event) {
                ended.push(*number);
            }
        }
        for number in ended {
            if let Some(turn) = self.turns.remove(&number) {
                turn.end(event);
            }
        }
        self.streams.retain(|stream| stream.send(event));
    }
}

impl TurnRoute {
    pub(crate) fn new(
        id: String,
        client_message_id: String,
        events: EventSender,
        result: oneshot::Sender<PromptResult>,
    ) -> TurnRoute {
        let phase = Phase::Sent;
        TurnRoute {
            id,
            client_message_id,
            phase,
            events: Some(events),
            result,
            text: String::new(),
        }
    }

    /// Returns true if the event is the result of this prompt.
    fn receive(&mut self, event: &Event) -> bool {
        let record = event.record();
        if self.phase == Phase::Queued && self.is_start(record) {
            self.phase = Phase::Running;
        }
        let is_result = self.is_result(record);
        if self.phase == Phase::Running || is_result {
            self.follow_text(event);
            if self.events.as_ref().is_some_and(|events| !events.send(event)) {
                self.events = None;
            }
        }
        is_result
    }

    fn is_start(&self, record: &Record<'_>) -> bool {
        let Record::MessageStart { client_message_id: Some(id), .. } = record else { return false };
        *id == self.client_message_id
    }

    fn is_result(&self, record: &Record<'_>) -> bool {
        let Record::PromptResult { id: Some(id), .. } = record else { return false };
        id.read::<String>().is_ok_and(|id| id == self.id)
    }

    fn follow_text(&mut self, event: &Event) {
        if let Some(delta) = event.text_delta() {
            self.text.push_str(delta);
            return;
        }
        if let Record::MessageStart { message: Message::Assistant(message), .. }
        | Record::MessageEnd { message: Message::Assistant(message) } = event.record()
        {
            let texts = message.content.iter().filter_map(|block| match block {
                Block::Text { text, .. } => Some(text.as_str()),
                _ => None,
            });
            self.text = texts.collect();
        }
    }

    /// Sends the result, which this event is.
    fn end(self, event: &Event) {
        let Record::PromptResult {
            status,
            reason,
            runs,
            turns,
            messages,
            usage,
            cost,
            duration_ms,
            error,
            ..
        } = event.record()
        else {
            return;
        };
        let result = PromptResult {
            status: *status,
            reason: *reason,
            text: self.text,
            error: error.clone().map(String::from),
            usage: usage.clone(),
            cost: *cost,
            runs: *runs,
            turns: *turns,
            messages: *messages,
            duration_ms: *duration_ms,
        };
        // The turn may have been dropped.
        self.result.send(result).ok();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tiller_protocol::Stamp;

    use super::*;
    use crate::events::{EventReceiver, event_queue};

    /// Routes with one request for a turn, and what the turn receives.
    fn turn() -> (Routes, EventReceiver, oneshot::Receiver<PromptResult>) {
        let shared = Arc::new(Shared::new());
        let mut routes = Routes::new(shared.clone());
        let (sender, events) = event_queue();
        let (result_sender, result) = oneshot::channel();
        let route = TurnRoute::new(shared.id(1), "mine".into(), sender, result_sender);
        routes.add_request(1, "steer", oneshot::channel().0, Some(route));
        (routes, events, result)
    }

    fn respond(routes: &mut Routes, fields: serde_json::Value) -> bool {
        let mut response = json!({
            "id": routes.shared.id(1), "type": "response", "command": "steer", "success": true,
        });
        response.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        routes.respond(&serde_json::from_value(response).unwrap())
    }

    fn publish(routes: &mut Routes, record: serde_json::Value) {
        let record = serde_json::from_value(record).unwrap();
        routes.publish(&Event::new(record, Stamp::default()));
    }

    fn user(id: &str) -> serde_json::Value {
        let message = json!({"role": "user", "content": "Hi", "timestamp": 1});
        json!({"type": "message_start", "message": message, "clientMessageId": id})
    }

    fn result_of(id: &str) -> serde_json::Value {
        let cost = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0});
        let usage = json!({
            "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": cost,
        });
        json!({
            "type": "prompt_result", "id": id, "command": "steer", "status": "done", "runs": 1,
            "turns": 1, "messages": 1, "usage": usage, "cost": 0, "durationMs": 1,
        })
    }

    async fn count(mut events: EventReceiver) -> usize {
        let mut count = 0;
        while events.next().await.unwrap().is_some() {
            count += 1;
        }
        count
    }

    #[tokio::test]
    async fn queued_turn_gets_events_from_its_own_message_to_its_own_result() {
        let (mut routes, events, result) = turn();
        publish(&mut routes, json!({"type": "turn_start"}));
        assert!(respond(&mut routes, json!({"data": {"disposition": "queued"}})));
        publish(&mut routes, json!({"type": "turn_start"}));
        publish(&mut routes, user("another"));
        publish(&mut routes, result_of("another"));
        publish(&mut routes, user("mine"));
        publish(&mut routes, result_of("another"));
        let own = result_of(&routes.shared.id(1));
        publish(&mut routes, own);
        publish(&mut routes, json!({"type": "turn_start"}));
        assert!(result.await.is_ok());
        assert_eq!(count(events).await, 3);
    }

    #[tokio::test]
    async fn started_turn_gets_all_events() {
        for data in [json!({"data": {"disposition": "started"}}), json!({})] {
            let (mut routes, events, result) = turn();
            assert!(respond(&mut routes, data));
            publish(&mut routes, json!({"type": "turn_start"}));
            publish(&mut routes, user("another"));
            drop(routes);
            assert!(result.await.is_err());
            assert_eq!(count(events).await, 2);
        }
    }

    #[tokio::test]
    async fn refused_turn_gets_nothing() {
        let (mut routes, events, result) = turn();
        assert!(respond(&mut routes, json!({"success": false, "error": "no"})));
        assert!(!respond(&mut routes, json!({})), "there is one response");
        publish(&mut routes, user("mine"));
        assert!(result.await.is_err());
        assert_eq!(count(events).await, 0);
    }
}
