//! HTTP exchanges, of which the world does the work. A body is read piece by piece, each when the
//! extension asks for it, so that nothing piles up.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::{Asked, Failed, Given, Later, unknown};
use crate::core::Core;
use crate::world::HttpRequest;

/// The rest of an answer.
pub(crate) type Body = Arc<Mutex<Option<BoxStream<'static, Result<Vec<u8>, String>>>>>;

#[derive(Deserialize)]
struct Exchange {
    #[serde(flatten)]
    request: HttpRequest,
}

pub(super) fn start(core: &Rc<Core>, name: &str, asked: Asked) -> Result<Later, Failed> {
    match name {
        // Gives the head of the answer, with the number of its body.
        "fetch" => {
            let Exchange { mut request } = asked.read()?;
            request.body = asked.bytes;
            let mut resources = core.resources.borrow_mut();
            let id = resources.number();
            let place = Body::default();
            resources.bodies.insert(id, place.clone());
            let answer = core.world.http(request);
            Ok(Box::pin(async move {
                let answer = answer.await.map_err(Failed::new)?;
                let head = json!({
                    "body": id, "status": answer.status, "statusText": answer.status_text,
                    "url": answer.url, "headers": answer.headers,
                });
                *place.lock().await = Some(answer.body);
                Ok(Given::json(&head))
            }))
        }
        // The next piece, or nothing at the end.
        "read" => {
            let id: u64 = asked.read()?;
            let body = core.resources.borrow().bodies.get(&id).cloned();
            let body = body.ok_or_else(|| Failed::new("the body was closed"))?;
            Ok(Box::pin(async move {
                let mut place = body.lock().await;
                let Some(stream) = place.as_mut() else { return Ok(Given::Nothing) };
                match stream.next().await {
                    Some(Ok(bytes)) => Ok(Given::Bytes(bytes)),
                    Some(Err(message)) => {
                        *place = None;
                        Err(Failed::new(message))
                    }
                    None => {
                        *place = None;
                        Ok(Given::Nothing)
                    }
                }
            }))
        }
        "close" => {
            core.resources.borrow_mut().bodies.remove(&asked.read()?);
            Ok(Box::pin(std::future::ready(Ok(Given::Nothing))))
        }
        _ => Err(unknown(name)),
    }
}
