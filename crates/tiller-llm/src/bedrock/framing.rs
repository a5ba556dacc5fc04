//! The inverse of [`super::frames`]: events to frames, for tests and fuzz targets. Recordings are
//! stored as text and framed here.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};

use crate::sse;

/// The bytes of a recording as sent over the network.
pub(crate) fn framed(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    sse::SseDecoder::default()
        .push(text.as_bytes(), |event| {
            let (kind, name) = if event.name.ends_with("Exception") {
                ("exception", ":exception-type")
            } else {
                ("event", ":event-type")
            };
            bytes.extend(frame(kind, &[(name, event.name)], event.data));
            Ok::<_, sse::TooLarge>(())
        })
        .unwrap_or(());
    bytes
}

pub(crate) fn frame(kind: &str, headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
    let header = |name: &str, value: &str| {
        Header::new(name.to_owned(), HeaderValue::String(value.to_owned().into()))
    };
    let mut message = Message::new(payload.as_bytes().to_vec())
        .add_header(header(":message-type", kind))
        .add_header(header(":content-type", "application/json"));
    for (name, value) in headers {
        message = message.add_header(header(name, value));
    }
    let mut bytes = Vec::new();
    // Events too long for a frame are left out.
    write_message_to(&message, &mut bytes).unwrap_or(());
    bytes
}
