//! Amazon's event streams: bytes in, frames out, however the bytes were split into chunks.
//!
//! A frame has a length, headers, a payload and two checksums. Amazon's own crate parses it; this
//! file interprets exceptions.

use aws_smithy_eventstream::frame::{DecodedFrame, MessageFrameDecoder};
use aws_smithy_types::event_stream::Message;
use bytes::BytesMut;
use tiller_agent::provider::ProviderError;

use crate::errors::Failure;
use crate::{json, sse};

/// Valid frames have at most 16 MiB. It keeps a broken server from exhausting memory.
const FRAME_MAX_BYTES: usize = 24 << 20;

#[derive(Debug, Default)]
pub(super) struct Frames {
    decoder: MessageFrameDecoder,
    /// The beginning of a frame whose end has not arrived.
    bytes: BytesMut,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), ProviderError> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > FRAME_MAX_BYTES {
            Err(ProviderError::fatal("the server sent a frame of more than 24 MiB"))
        } else {
            Ok(())
        }
    }

    /// The next complete frame.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, ProviderError> {
        match self.decoder.decode_frame(&mut self.bytes) {
            Ok(DecodedFrame::Complete(message)) => Ok(Some(Frame { message })),
            Ok(DecodedFrame::Incomplete) => Ok(None),
            // The stream is garbled; a retry is likely to help.
            Err(err) => {
                Err(ProviderError::retry(format!("cannot read what the server sent: {err}")))
            }
        }
    }
}

pub(super) struct Frame {
    message: Message,
}

impl Frame {
    /// The event in it. An exception is an error.
    pub(super) fn event(&self) -> Result<sse::Event<'_>, ProviderError> {
        let payload = self.message.payload();
        let data = std::str::from_utf8(payload)
            .map_err(|_| ProviderError::retry("cannot read what the server sent: no text"))?;
        match self.header(":message-type") {
            Some("exception") => {
                Err(exception(self.header(":exception-type").unwrap_or("exception"), data))
            }
            Some("error") => {
                let code = self.header(":error-code").unwrap_or("error");
                Err(exception(code, self.header(":error-message").unwrap_or(data)))
            }
            _ => Ok(sse::Event { name: self.header(":event-type").unwrap_or(""), data }),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.message.headers().iter();
        let header = headers.find(|header| header.name().as_str() == name)?;
        header.value().as_string().ok().map(|value| value.as_str())
    }
}

/// Named as in an error response, where a status comes along.
fn exception(name: &str, data: &str) -> ProviderError {
    let status = match name {
        "throttlingException" => Some(429),
        "serviceUnavailableException" => Some(503),
        "internalServerException" | "modelStreamErrorException" => Some(500),
        "modelTimeoutException" => Some(408),
        "validationException" => Some(400),
        "accessDeniedException" => Some(403),
        _ => None,
    };
    #[derive(serde::Deserialize)]
    struct Body {
        message: String,
    }
    let message = json::read::<Body>(data).map(|body| body.message);
    let text = format!("{name}: {}", message.as_deref().unwrap_or(data));
    Failure { status, body: &text, after: None }.classify(text.clone())
}
