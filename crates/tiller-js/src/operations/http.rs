//! HTTP exchanges, performed by the host. A body is read chunk by chunk, as the extension asks for
//! it, so that nothing accumulates.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::{OpError, OpFuture, OpInput, OpOutput, unknown};
use crate::engine_state::EngineState;
use crate::host_api::HttpRequest;

/// The unread rest of a response body.
pub(crate) type Body = Arc<Mutex<Option<BoxStream<'static, Result<Vec<u8>, String>>>>>;

#[derive(Deserialize)]
struct Exchange {
    #[serde(flatten)]
    request: HttpRequest,
}

pub(super) fn start(
    state: &Rc<EngineState>,
    name: &str,
    input: OpInput,
) -> Result<OpFuture, OpError> {
    match name {
        // Returns status and headers, with the number of the body.
        "fetch" => {
            let Exchange { mut request } = input.read()?;
            request.body = input.bytes;
            let mut resources = state.resources.borrow_mut();
            let id = resources.number();
            let slot = Body::default();
            resources.bodies.insert(id, slot.clone());
            let answer = state.host.http(request);
            Ok(Box::pin(async move {
                let answer = answer.await.map_err(OpError::new)?;
                let head = json!({
                    "body": id, "status": answer.status, "statusText": answer.status_text,
                    "url": answer.url, "headers": answer.headers,
                });
                *slot.lock().await = Some(answer.body);
                Ok(OpOutput::json(&head))
            }))
        }
        // The next chunk, or nothing at the end.
        "read" => {
            let id: u64 = input.read()?;
            let body = state.resources.borrow().bodies.get(&id).cloned();
            let body = body.ok_or_else(|| OpError::new("the body was closed"))?;
            Ok(Box::pin(async move {
                let mut slot = body.lock().await;
                let Some(stream) = slot.as_mut() else { return Ok(OpOutput::Nothing) };
                match stream.next().await {
                    Some(Ok(bytes)) => Ok(OpOutput::Bytes(bytes)),
                    Some(Err(message)) => {
                        *slot = None;
                        Err(OpError::new(message))
                    }
                    None => {
                        *slot = None;
                        Ok(OpOutput::Nothing)
                    }
                }
            }))
        }
        "close" => {
            state.resources.borrow_mut().bodies.remove(&input.read()?);
            Ok(Box::pin(std::future::ready(Ok(OpOutput::Nothing))))
        }
        _ => Err(unknown(name)),
    }
}
