//! Decodes an answer and prints one line per event. Tests and fuzz targets compare such listings.

use tiller_agent::provider::StreamEvent;

use crate::sse;
use crate::stream::Decode;

/// Decodes the bytes as if they came in chunks of this size.
pub(crate) fn decode<D: Decode>(mut decoder: D, bytes: &[u8], chunk_bytes: usize) -> String {
    let mut sse = sse::SseDecoder::default();
    let mut out = Vec::new();
    let mut decoded = bytes
        .chunks(chunk_bytes.max(1))
        .try_for_each(|chunk| decoder.read(&mut sse, chunk, &mut out));
    if decoded.is_ok() && !matches!(out.last(), Some(StreamEvent::Done { .. })) {
        decoded = decoder.end(&mut out);
    }
    let mut printed: String = out.iter().map(listed).collect();
    if let Err(err) = decoded {
        printed += &format!("{err:?}\n");
    }
    printed
}

fn listed(event: &StreamEvent) -> String {
    let signed = |signature: &Option<String>| match signature {
        Some(signature) => format!(", signed {signature}"),
        None => String::new(),
    };
    let line = match event {
        StreamEvent::Start => "start".to_owned(),
        StreamEvent::ResponseId(id) => format!("response {id}"),
        StreamEvent::ResponseModel(model) => format!("answered by {model}"),
        StreamEvent::TextStart { index } => format!("{index} text"),
        StreamEvent::TextDelta { index, delta } => format!("{index} + {delta:?}"),
        StreamEvent::TextEnd { index, signature } => format!("{index} end{}", signed(signature)),
        StreamEvent::ThinkingStart { index } => format!("{index} thinking"),
        StreamEvent::ThinkingDelta { index, delta } => format!("{index} + {delta:?}"),
        StreamEvent::ThinkingEnd { index, signature, redacted } => {
            let hidden = if *redacted { " hidden" } else { "" };
            format!("{index} end{hidden}{}", signed(signature))
        }
        StreamEvent::CallStart { index, id, name } => format!("{index} call {name} {id}"),
        StreamEvent::CallDelta { index, delta } => format!("{index} + {delta}"),
        StreamEvent::CallArguments { index, arguments } => {
            format!("{index} = {}", serde_json::json!(arguments))
        }
        StreamEvent::CallEnd { index, thought_signature } => {
            format!("{index} end{}", signed(thought_signature))
        }
        StreamEvent::Usage(usage) => {
            let hour = usage.cache_write_1h.map(|hour| format!(" ({hour} for an hour)"));
            format!(
                "usage {} in, {} out ({:?} thinking), {} read, {} written{}, {} in all",
                usage.input,
                usage.output,
                usage.reasoning,
                usage.cache_read,
                usage.cache_write,
                hour.unwrap_or_default(),
                usage.total_tokens,
            )
        }
        StreamEvent::RawStop(raw) => format!("raw stop {raw}"),
        StreamEvent::Done { reason, raw } => format!("done {reason:?} {raw:?}"),
    };
    line + "\n"
}
