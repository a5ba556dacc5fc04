//! Calls of the model providers that extensions registered.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Extensions;
use crate::access::{self, Access};
use crate::coalesce::{self, JoinDeltas};
use crate::entry::Entry;

impl Extensions {
    /// Streams an answer of an extension's provider: the events of an assistant message stream, the
    /// last of which is `done` or `error`. The events carry no partial message, but the parts of it
    /// that deltas do not show: id and name of a tool call, signatures.
    pub fn stream(
        &self,
        provider: &str,
        model: Value,
        context: Value,
        options: Value,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Value> {
        let registrations = self.registrations();
        let known = registrations.providers.into_iter().find(|known| known.name == provider);
        let found = known.and_then(|known| Some((self.engine_of(known.extension)?, known)));
        let Some((engine, provider)) = found else {
            let error = json!({ "type": "error", "reason": "error",
                "error": { "errorMessage": format!("no provider \"{provider}\"") } });
            return futures_util::stream::iter([error]).boxed();
        };
        let input = json!({ "extension": provider.extension, "provider": provider.name,
            "model": model, "context": context, "options": options });
        let (progress, events) = coalesce::channel::<JoinDeltas>();
        let running =
            engine.call_about(Entry::Stream, "stream", &input, Some(cancel), Some(progress));
        let events = futures_util::stream::unfold(events, |mut events| async move {
            let event = events.next().await?;
            Some((event, events))
        });
        let end = futures_util::stream::once(running).filter_map(|result| async move {
            let err = result.err()?;
            Some(json!({ "type": "error", "reason": "error",
                "error": { "errorMessage": err.to_string() } }))
        });
        events.chain(end).boxed()
    }

    /// Has an extension's provider make a key from a stored credential: `{key, renewed?}`, where
    /// `renewed` is the credential to store instead.
    pub async fn sign_in(&self, provider: &str, stored: Value) -> Result<Value, String> {
        let providers = self.registrations().providers;
        let known = providers.into_iter().find(|known| known.name == provider);
        let found = known.and_then(|known| Some((self.engine_of(known.extension)?, known)));
        let (engine, known) = found.ok_or_else(|| format!("no provider \"{provider}\""))?;
        if let Err(denied) = access::check(engine.permissions, Access::SignIn) {
            return Err(denied.to_string());
        }
        let input =
            json!({ "extension": known.extension, "provider": provider, "credential": stored });
        let made = engine.call(Entry::SignIn, &input).await.map_err(|err| err.to_string())?;
        Ok(serde_json::from_str(&made).unwrap_or_default())
    }

    /// Has the providers refresh their models, with pi's options. Returns errors by provider.
    pub async fn refresh_models(&self, options: &Value) -> serde_json::Map<String, Value> {
        let mut errors = serde_json::Map::new();
        for engine in self.all_engines() {
            match engine.call(Entry::RefreshModels, options).await {
                Ok(failed) => {
                    let failed: serde_json::Map<String, Value> =
                        serde_json::from_str(&failed).unwrap_or_default();
                    errors.extend(failed);
                }
                Err(err) => self.report("refresh_models", &err.to_string()).await,
            }
        }
        errors
    }
}
