//! Models and their thinking levels.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tiller_agent::model::{Model, ThinkingLevel};

/// The data of `get_available_models`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelsData<'a> {
    pub models: Vec<Cow<'a, Model>>,
    /// How many there are in all. Only in a response with pages: if `offset` or `limit` was given,
    /// or after `maxFrameBytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    /// The `offset` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// The data of `cycle_model`, if there is another model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CycledModelData<'a> {
    pub model: Cow<'a, Model>,
    pub thinking_level: ThinkingLevel,
    /// Only some models are cycled through: those that the user has selected.
    pub is_scoped: bool,
}

/// The data of `cycle_thinking_level`, if the model has another level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CycledLevelData {
    pub level: ThinkingLevel,
}

/// The data of `get_available_thinking_levels`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThinkingLevelsData {
    /// From the lowest to the highest.
    pub levels: Vec<ThinkingLevel>,
}

/// The data of `get_integrations`: the connections of tiller, in the format of xcsh's client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntegrationsData<'a> {
    /// The version of tiller.
    pub version: Cow<'a, str>,
    pub model: ModelConnection<'a>,
    /// Other services to sign in to. tiller has none.
    pub services: Vec<Service>,
}

/// The connection to the current model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelConnection<'a> {
    pub state: ModelConnectionState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelConnectionState {
    /// There is no current model.
    NoProvider,
    /// A key and an address are there. No request was made.
    Connected,
    /// The key or the address is missing.
    AuthError,
}

/// A service to sign in to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Service {}
