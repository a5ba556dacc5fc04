//! What an extension may want to know or have done about the session, the models and the agent.
//! These are the words of the host protocol; the JavaScript side writes them as JSON objects
//! whose `type` is the variant's name.

use serde::Deserialize;
use serde_json::Value;

/// How things stand. Each variant says what its answer looks like.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Query {
    /// The session's working folder, a string.
    Cwd,
    /// Whether no run is active.
    IsIdle,
    /// Whether steering or follow-up text of the user waits.
    HasPendingMessages,
    /// What waits in the queues, as messages.
    PendingMessages,
    IsProjectTrusted,
    /// `null`, or `{tokens, contextWindow, percent}`.
    ContextUsage,
    /// The effective prompt, a string.
    SystemPrompt,
    /// The parts the prompt is made of, an object.
    SystemPromptOptions,
    /// The prompt that such parts make, a string.
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
    /// The same for the tools that are built in, whether active or not, with `label` and
    /// `promptSnippet`.
    BuiltinTools,
    /// `[{name, description?, source, sourceInfo}]`.
    Commands,
    Session(SessionRead),
    Models(ModelRead),
}

/// What can be read of the session.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "read", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SessionRead {
    Cwd,
    Dir,
    Id,
    /// A path, or `null` for a session that is not kept.
    File,
    /// `null` in an empty session.
    LeafId,
    Entry {
        id: String,
    },
    Label {
        id: String,
    },
    /// Entries from the root to the given one, or to the leaf.
    Branch {
        #[serde(default)]
        from: Option<String>,
    },
    /// All entries of all branches, in the order of the file.
    Entries,
    /// `[{entry, children, label?}]`.
    Tree,
    Header,
    /// The name, or `null`.
    Name,
    /// The entries the model would see.
    ContextEntries,
    /// `{entries, messages, thinkingLevel, model}` as the model would see it; the entries are
    /// `{sourceEntry, messages}`.
    Projection,
}

/// What can be read of the models.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "read", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ModelRead {
    All,
    /// Those with credentials.
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
    /// What is stored for it, `{type:"oauth", …}` or `{type:"api_key", key}`, or `null`.
    Credential {
        provider: String,
    },
    /// What is wrong with `models.json`, or `null`.
    Error,
    /// The names of the providers that are known without any configuration.
    CatalogueProviders,
    /// The models that are known of one of them, with credentials or without.
    Catalogue {
        provider: String,
    },
}

/// When a message of an extension is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Delivery {
    Steer,
    FollowUp,
    /// Held, and added after the user message of the next prompt.
    NextTurn,
}

/// Something to be done that nobody waits for.
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
    /// Like a prompt of the client.
    SendUserMessage {
        /// A string, or blocks of text and images.
        content: Value,
        #[serde(default)]
        deliver_as: Option<Delivery>,
        #[serde(default)]
        expand_prompt_templates: bool,
    },
    /// An entry the model never sees.
    AppendEntry {
        custom_type: String,
        #[serde(default)]
        data: Option<Value>,
    },
    /// A message put straight into the session, as the session manager's append methods do.
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
    /// Takes effect at once; what it says is the form of [`Provider`](crate::Provider).
    RegisterProvider {
        name: String,
        config: Value,
    },
    UnregisterProvider {
        name: String,
    },
}

/// Something to be done whose end is waited for. Each variant says what it gives.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Request {
    /// Whether the provider had credentials and the model was switched.
    SetModel { model: Value },
    /// The result of the compaction.
    Compact {
        #[serde(default)]
        custom_instructions: Option<String>,
    },
    /// `null`, when nothing runs.
    WaitForIdle,
    /// `{cancelled}`; the extensions have been renewed by then.
    NewSession {
        #[serde(default)]
        parent_session: Option<String>,
        /// What `setup` wants in the new session from the start: `{type:"message", message}`,
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
    /// Never answered inside the engine, which is gone by then.
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
    /// What a provider has stored of its models, or `null`.
    StoredModels { provider: String },
    /// Keeps it for the next time, or forgets it if it is `null`. Gives `null`.
    StoreModels { provider: String, entry: Value },
    /// The body of a request that an extension is about to send for its own provider; gives the
    /// one to send, or `null` if it stays.
    BeforeProviderRequest { payload: Value },
    /// The answer to it has begun. Gives `null`.
    AfterProviderResponse { status: u16, headers: Value },
    /// A built-in tool: `{content, details?}`, or an error with its text.
    RunTool { name: String, tool_call_id: String, arguments: Value, cwd: String },
}
