//! What an extension can ask about the session, the models and the agent. These types are the host
//! protocol; JavaScript writes them as JSON objects whose `type` is the variant's name.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// Reads of current state. Each variant documents its answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Query {
    /// The session's working folder, a string.
    Cwd,
    /// Whether no run is active.
    IsIdle,
    /// Whether steering or follow-up messages of the user are queued.
    HasPendingMessages,
    /// The queued messages.
    PendingMessages,
    IsProjectTrusted,
    /// `null`, or `{tokens, contextWindow, percent}`.
    ContextUsage,
    /// The effective system prompt, a string.
    SystemPrompt,
    /// The parts of the system prompt, an object.
    SystemPromptOptions,
    /// The system prompt made of the given parts, a string.
    RenderedPrompt {
        options: Value,
    },
    /// The model object or `null`.
    Model,
    /// `[{model, thinkingLevel?}]`.
    ScopedModels,
    ThinkingLevel,
    /// Names.
    ActiveTools,
    /// `[{name, description, parameters, promptGuidelines?, sourceInfo}]`.
    AllTools,
    /// The same for all built-in tools, active or not, with `label` and `promptSnippet`.
    BuiltinTools,
    /// `[{name, description?, source, sourceInfo}]`.
    Commands,
    Session(SessionRead),
    Models(ModelRead),
}

/// Reads of the session.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "read", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SessionRead {
    Cwd,
    /// Of its file, or `null`.
    Dir,
    /// The folder for sessions of a project.
    ProjectDir {
        cwd: PathBuf,
    },
    /// The folder with a folder for every project.
    AllProjectsDir,
    Id,
    /// A path, or `null` for a session that is not stored.
    File,
    /// `null` in an empty session.
    LeafId,
    Entry {
        id: String,
    },
    Label {
        id: String,
    },
    /// Entries from the root to the given entry, or to the leaf.
    Branch {
        #[serde(default)]
        from: Option<String>,
    },
    /// All entries of all branches, in file order.
    Entries,
    /// `[{entry, children, label?}]`.
    Tree,
    Header,
    /// The name, or `null`.
    Name,
    /// The entries that are part of the model's context.
    ContextEntries,
    /// `{entries, messages, thinkingLevel, model}` of the model's context; the entries are
    /// `{sourceEntry, messages}`.
    Projection,
}

/// Reads of the model registry.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "read", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ModelRead {
    All,
    /// Models with credentials.
    Available,
    /// The model object or `null`.
    Find {
        provider: String,
        id: String,
    },
    HasAuth {
        provider: String,
    },
    IsUsingOauth {
        provider: String,
    },
    ProviderName {
        provider: String,
    },
    /// `{configured, source?}`.
    AuthStatus {
        provider: String,
    },
    /// The stored credential, `{type:"oauth", …}` or `{type:"api_key", key}`, or `null`.
    Credential {
        provider: String,
    },
    /// The error in `models.json`, or `null`.
    Error,
    /// The names of the built-in providers.
    CatalogueProviders,
    /// The built-in models of one provider, with credentials or without.
    Catalogue {
        provider: String,
    },
}

/// When a message of an extension is added to the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Delivery {
    Steer,
    FollowUp,
    /// Held, and added after the user message of the next prompt.
    NextTurn,
}

/// Actions without a result.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Action {
    /// A message of role `custom`.
    SendMessage {
        /// `{customType, content, display, details?}`.
        message: Value,
        /// Absent is not the same as `false`: while a run is active it counts as `true`.
        #[serde(default)]
        trigger_turn: Option<bool>,
        #[serde(default)]
        deliver_as: Option<Delivery>,
    },
    /// Like a client's prompt.
    SendUserMessage {
        /// A string, or blocks of text and images.
        content: Value,
        #[serde(default)]
        deliver_as: Option<Delivery>,
        #[serde(default)]
        expand_prompt_templates: bool,
    },
    /// An entry that is not part of the model's context.
    AppendEntry {
        custom_type: String,
        #[serde(default)]
        data: Option<Value>,
    },
    /// Appends a message to the session directly, as the session manager's append methods do.
    AppendMessage {
        message: Value,
    },
    SetSessionName {
        name: String,
    },
    SetLabel {
        entry_id: String,
        #[serde(default)]
        label: Option<String>,
    },
    SetActiveTools {
        names: Vec<String>,
    },
    SetThinkingLevel {
        level: String,
    },
    Abort,
    Shutdown,
    /// Takes effect at once; the fields are those of [`Provider`](crate::Provider).
    RegisterProvider {
        name: String,
        config: Value,
    },
    UnregisterProvider {
        name: String,
    },
}

/// Actions whose result is awaited. Each variant documents its result.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Request {
    /// Whether the provider has credentials and the model was switched.
    SetModel { model: Value },
    /// The result of the compaction.
    Compact {
        #[serde(default)]
        custom_instructions: Option<String>,
    },
    /// `null`, once no run is active.
    WaitForIdle,
    /// `{cancelled}`; by then the extensions have started over.
    NewSession {
        #[serde(default)]
        parent_session: Option<String>,
        /// The entries that `setup` adds to the new session: `{type:"message", message}`,
        /// `{type:"custom", customType, data}`, `{type:"custom_message", …}`,
        /// `{type:"session_info", name}`.
        #[serde(default)]
        entries: Vec<Value>,
    },
    /// `{cancelled}`.
    Fork {
        entry_id: String,
        /// `before` (the default) or `at`.
        #[serde(default)]
        position: Option<String>,
    },
    /// `{cancelled}`.
    NavigateTree {
        target_id: String,
        /// `{summarize?, customInstructions?, replaceInstructions?, label?}`.
        #[serde(default)]
        options: Value,
    },
    /// `{cancelled}`.
    SwitchSession { path: String },
    /// Never answered: the engine is gone by then.
    Reload,
    /// `{ok:true, apiKey?, headers?, baseUrl?}` or `{ok:false, error}`.
    ApiKeyAndHeaders { model: Value },
    /// A string or `null`.
    ApiKey { provider: String },
    /// `{aborted, errors}`. The options are `{providers?, force?, allowNetwork?}`.
    RefreshModels {
        #[serde(default)]
        options: Value,
    },
    /// The provider's entry in the model store, or `null`.
    StoredModels { provider: String },
    /// Replaces that entry, or deletes it if `null`. The result is `null`.
    StoreModels { provider: String, entry: Value },
    /// The body of a request that an extension is about to send for its own provider. The result is
    /// the body to send instead, or `null`.
    BeforeProviderRequest { payload: Value },
    /// The response to that request has begun. The result is `null`.
    AfterProviderResponse { status: u16, headers: Value },
    /// Runs a built-in tool. The result is `{content, details?}`, or an error with the tool's text.
    RunTool { name: String, tool_call_id: String, arguments: Value, cwd: String },
}
