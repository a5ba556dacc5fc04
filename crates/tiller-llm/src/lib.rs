//! Clients for model APIs.
//!
//! [`provider`] is the entry point. An answer passes through these modules:
//!
//! ```text
//! convert     the conversation as a model accepts it
//! anthropic   the vendor's format of requests and answers; the other vendors are beside it
//! stream      the connection: sends the request, reads chunks
//! sse         chunks to events
//! errors      classifies failures
//! ```
//!
//! `max_tokens` limits the length of an answer, and `client` is the connection that requests share.
//! `diagnosis` finds the cause of a failure; an [`interceptor`] can change requests, an
//! [`Observer`] only records them. [`http`] sends other requests than those to models.

mod request_options;

// Pure code.
mod anthropic;
mod azure;
#[cfg(feature = "bedrock")]
mod bedrock;
mod blocks;
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

/// The provider for this model. `None` if its API is not supported.
///
/// Nothing is opened, read or built before the first request. The provider works for any model with
/// the same API and access.
pub fn provider(model: &Model, access: RequestOptions) -> Option<Arc<dyn Provider>> {
    connect(&model.api).map(|connect| connect(access))
}

/// Whether [`provider`] supports this API.
pub fn supports(api: &str) -> bool {
    connect(api).is_some()
}

/// Classifies a failure by its text alone.
pub fn classify_text(message: &str) -> ProviderError {
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
