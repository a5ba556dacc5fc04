//! Requests that wait for project files, for extensions or for a session change.
//!
//! Lines are still read meanwhile, because an answer to an extension's dialog may follow; so the
//! waiting requests are limited, and one beyond the limit is refused.

use std::collections::VecDeque;

use tiller_protocol::Request;

/// Requests are held back while those before them take less than this.
const WAITING_MAX_BYTES: usize = 16 << 20;
/// What a request takes beside the bytes of its line.
const REQUEST_BYTES: usize = 512;

/// The error for a request beyond the limit.
pub(crate) const TOO_MANY: &str = "Too many commands are waiting for files, extensions or another \
                                   session. Send this one again when they are answered";

#[derive(Default)]
pub(crate) struct HeldRequests {
    requests: VecDeque<Request>,
    bytes: usize,
}

impl HeldRequests {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether this request is beyond the limit. Commands that end the waiting have a higher one.
    pub(crate) fn has_no_room_for(&self, request: &Request) -> bool {
        let is_urgent = request.command.as_ref().is_ok_and(|command| command.is_urgent());
        self.bytes >= if is_urgent { 2 * WAITING_MAX_BYTES } else { WAITING_MAX_BYTES }
    }

    pub(crate) fn push_back(&mut self, request: Request) {
        self.bytes += cost(&request);
        self.requests.push_back(request);
    }

    pub(crate) fn push_front(&mut self, request: Request) {
        self.bytes += cost(&request);
        self.requests.push_front(request);
    }

    pub(crate) fn pop_front(&mut self) -> Option<Request> {
        let request = self.requests.pop_front()?;
        self.bytes -= cost(&request);
        Some(request)
    }
}

fn cost(request: &Request) -> usize {
    request.line_bytes + REQUEST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Line;

    fn request(line: &str) -> Request {
        Request::read(Line::Text(line.as_bytes().to_vec())).unwrap()
    }

    #[test]
    fn held_requests_have_room_for_16_mib_or_one_longer_line() {
        let mut held = HeldRequests::default();
        let long = format!(r#"{{"type":"set_session_name","name":"{}"}}"#, "x".repeat(20 << 20));
        assert!(!held.has_no_room_for(&request(&long)));
        held.push_back(request(&long));
        assert!(held.has_no_room_for(&request(r#"{"type":"get_messages"}"#)));
        assert!(!held.has_no_room_for(&request(r#"{"type":"abort"}"#)));
        held.push_front(request(&long));
        assert!(held.has_no_room_for(&request(r#"{"type":"abort"}"#)));
        while held.pop_front().is_some() {}
        assert!(!held.has_no_room_for(&request(r#"{"type":"get_messages"}"#)));
        assert_eq!(held.bytes, 0);
    }

    #[test]
    fn short_lines_count_with_a_fixed_overhead() {
        let mut held = HeldRequests::default();
        let mut count = 0;
        while !held.has_no_room_for(&request(r#"{"type":"get_messages"}"#)) {
            held.push_back(request(r#"{"type":"get_messages"}"#));
            count += 1;
        }
        assert!((25_000..50_000).contains(&count), "{count}");
    }
}
