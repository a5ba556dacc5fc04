//! Every model API we speak.
//!
//! [`provider`] is the door. Behind it, an answer passes through these rooms:
//!
//! ```text
//! convert     the conversation as a model may see it
//! anthropic   the vendor's words for it, and for the answer; the other vendors stand beside it
//! stream      the socket: ask, then read chunks
//! sse         chunks to events
//! errors      what can be done when it fails
//! ```
//!
//! `room` says how long an answer may get, and `client` is the connection that answers share. What
//! a person could mend about a failure is a `trouble`; who has a say in requests is an
//! [`onlooker`], who only keeps a record of them an [`Observer`]. [`http`] asks servers that are no models.

mod request_options;

// Values in, values out.
mod anthropic;
mod azure;
#[cfg(feature = "bedrock")]
mod bedrock;
mod compat;
mod convert;
mod errors;
mod google;
mod json;
mod openai_completions;
mod openai_responses;
mod retry_after;
mod max_tokens;
mod sse;

// The network.
mod client;
pub mod http;
mod observer;
pub mod interceptor;
mod stream;
mod tls;
mod diagnosis;
mod connect_error;

#[cfg(any(test, feature = "fuzzing"))]
mod listing;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use tiller_agent::model::Model;
use tiller_agent::provider::{Provider, ProviderError};

pub use diagnosis::{Cause, CertificateFault, Diagnosis, HintSource, LostWhen};
pub use interceptor::Interceptor;
pub use observer::{ExchangeEnd, Observed, Observer};
pub use request_options::{AwsKeys, CacheRetention, RequestOptions, Secret, ThinkingBudgets};

/// Whoever answers for this model. `None` if we do not speak its API.
///
/// Nothing is opened, read or built before the first answer is asked for. The provider serves any
/// model of the same API that the same access is good for.
pub fn provider(model: &Model, access: RequestOptions) -> Option<Arc<dyn Provider>> {
    connect(&model.api).map(|connect| connect(access))
}

/// Whether [`provider`] knows this API.
pub fn supports(api: &str) -> bool {
    connect(api).is_some()
}

/// What can be done about a failure that is known by its words alone.
pub fn judged(message: &str) -> ProviderError {
    let failure = errors::Failure { body: message, ..errors::Failure::default() };
    failure.classify(message.to_owned())
}

type Connect = fn(RequestOptions) -> Arc<dyn Provider>;

fn connect(api: &str) -> Option<Connect> {
    match api {
        "anthropic-messages" => Some(stream::connect::<anthropic::Messages>),
        "openai-completions" => Some(stream::connect::<openai_completions::Completions>),
        "openai-responses" => Some(stream::connect::<openai_responses::Responses>),
        "azure-openai-responses" => Some(stream::connect::<azure::AzureResponses>),
        "google-generative-ai" => Some(stream::connect::<google::GenerateContent>),
        #[cfg(feature = "bedrock")]
        "bedrock-converse-stream" => Some(stream::connect::<bedrock::ConverseStream>),
        _ => None,
    }
}
