//! Actions of extensions: messages, entries, names, tools; and requests that they wait for.

use serde_json::{Value, json};
use tiller_agent::driver::Queue;
use tiller_agent::event::Event;
use tiller_agent::message::{Block, Message};
use tiller_agent::model::ThinkingLevel;
use tiller_agent::tool::ToolContext;
use tiller_js::event::Event as ExtensionEvent;
use tiller_js::world::{Action, Delivery, Request};
use tiller_session::Body;
use tokio_util::sync::CancellationToken;

use super::SessionState;
use super::prompt_hooks::custom;
use crate::rpc::handlers;
use crate::rpc::prompt::PromptRequest;
use crate::rpc::requester::{ExtensionReply, Requester};
use crate::rpc::wire::{Level, WhenBusy};

impl SessionState {
    /// Runs an action at once. An error is reported as `extension_error`.
    pub(super) fn act(&mut self, action: Action) {
        let (event, done) = match action {
            Action::SendMessage { message, trigger_turn, deliver_as } => {
                ("send_message", self.send_message(message, trigger_turn, deliver_as))
            }
            Action::SendUserMessage { content, deliver_as, expand_prompt_templates } => {
                self.send_user_message(content, deliver_as, expand_prompt_templates);
                ("send_user_message", Ok(()))
            }
            Action::AppendEntry { custom_type, data } => {
                ("append_entry", self.append_custom_entry(Body::Custom { custom_type, data }))
            }
            Action::AppendMessage { message } => {
                ("append_message", self.append_extension_message(message))
            }
            Action::SetSessionName { name } => ("set_session_name", self.name_session(&name)),
            Action::SetLabel { entry_id, label } => {
                ("set_label", handlers::tree::set_label(self, &entry_id, label).map(|_| ()))
            }
            Action::SetActiveTools { names } => {
                self.choose_tools(names);
                ("set_active_tools", Ok(()))
            }
            Action::SetThinkingLevel { level } => ("set_thinking_level", self.set_level(&level)),
            Action::Abort => {
                self.abort();
                ("abort", Ok(()))
            }
            Action::Shutdown => {
                self.shutdown_requested = true;
                ("shutdown", Ok(()))
            }
            Action::RegisterProvider { name, config } => {
                self.register_provider(&name, config);
                ("register_provider", Ok(()))
            }
            Action::UnregisterProvider { name } => {
                self.unregister_provider(&name);
                ("unregister_provider", Ok(()))
            }
        };
        if let Err(error) = done {
            self.report_action(event, error);
        }
    }

    fn send_message(
        &mut self,
        message: Value,
        trigger_turn: Option<bool>,
        deliver_as: Option<Delivery>,
    ) -> Result<(), String> {
        let message = custom(message, self.clock.now())
            .ok_or("expected {customType, content, display, details?}")?;
        match (deliver_as, self.is_busy(), trigger_turn) {
            (Some(Delivery::NextTurn), ..) => {
                self.extensions.messages_for_next_prompt.push(message)
            }
            (_, true, Some(false)) => self.extensions.messages_after_turn.push(message),
            (Some(Delivery::FollowUp), true, _) => self.enqueue(Queue::FollowUp, message),
            (_, true, _) => self.enqueue(Queue::Steering, message),
            (_, false, Some(true)) => {
                self.check_can_start_prompt()?;
                self.answer_commands();
                self.start_run(vec![message]);
            }
            (_, false, _) => self.append_custom(message),
        }
        Ok(())
    }

    fn send_user_message(&mut self, content: Value, deliver_as: Option<Delivery>, expands: bool) {
        let (text, images) = match content {
            Value::String(text) => (text, Vec::new()),
            blocks => {
                let blocks: Vec<Block> = serde_json::from_value(blocks).unwrap_or_default();
                let words = |block: &Block| match block {
                    Block::Text { text, .. } => Some(text.clone()),
                    _ => None,
                };
                let text: Vec<String> = blocks.iter().filter_map(words).collect();
                let images = blocks.into_iter().filter(|b| matches!(b, Block::Image { .. }));
                (text.join("\n"), images.collect())
            }
        };
        let when_busy = match deliver_as {
            Some(Delivery::Steer) => WhenBusy::Steer,
            Some(Delivery::FollowUp) => WhenBusy::FollowUp,
            _ => WhenBusy::Refuse,
        };
        let (label, level, waits) = (None, Level::Pi, false);
        let prompt = PromptRequest { label, level, text, images, when_busy, waits, expands };
        let handled = self.submit(prompt);
        self.respond_to_prompt(None, handled);
    }

    /// Appends a message without asking the model.
    pub(super) fn append_custom(&mut self, message: Message) {
        let message = std::sync::Arc::new(message);
        self.emit(Event::MessageStart { message: message.clone(), ticket: None });
        if self.append_message(message.clone()).is_ok() {
            self.emit(Event::MessageEnd { message });
        }
    }

    /// Appends messages that waited for the end of a turn when no turn follows.
    pub(crate) fn flush_messages_after_turn(&mut self) {
        for message in std::mem::take(&mut self.extensions.messages_after_turn) {
            self.append_custom(message);
        }
        self.release_waiters();
        self.extensions.system_prompt_override = None;
    }

    /// Responds to `ctx.waitForIdle` when nothing runs.
    pub(crate) fn release_waiters(&mut self) {
        if self.is_at_work() {
            return;
        }
        for waiter in std::mem::take(&mut self.extensions.idle_waiters) {
            waiter.respond(Ok(Value::Null));
        }
    }

    pub(super) fn append_custom_entry(&mut self, body: Body) -> Result<(), String> {
        let now = self.clock.now();
        let id = self.conversation.record(body, now).map_err(|err| err.to_string())?;
        let text = self.conversation.session().raw(&id).map_err(|err| err.to_string())?;
        let entry = text.and_then(|text| serde_json::value::RawValue::from_string(text).ok());
        if let Some(entry) = entry {
            self.emit(Event::EntryAppended { entry });
        }
        Ok(())
    }

    /// A blank name removes the name; the client's command refuses it.
    fn name_session(&mut self, name: &str) -> Result<(), String> {
        if !name.trim().is_empty() {
            return handlers::session::set_name(self, name).map(|_| ());
        }
        let unnamed = Body::SessionInfo { name: String::new() };
        self.conversation.record(unnamed, self.clock.now()).map_err(|err| err.to_string())?;
        self.emit(Event::SessionInfoChanged { name: None });
        Ok(())
    }

    fn append_extension_message(&mut self, message: Value) -> Result<(), String> {
        let message: Message = serde_json::from_value(message).map_err(|err| err.to_string())?;
        self.append_message(std::sync::Arc::new(message)).map_err(|why| why.0)
    }

    fn set_level(&mut self, level: &str) -> Result<(), String> {
        let level: ThinkingLevel =
            serde_json::from_value(json!(level)).map_err(|err| err.to_string())?;
        handlers::thinking::set_level(self, level).map(|_| ())
    }

    /// Handles a request that the extension waits for.
    pub(super) fn handle_request(&mut self, request: Request, answer: ExtensionReply) {
        let done = match request {
            Request::SetModel { model } => {
                let name = |key: &str| model[key].as_str().unwrap_or_default().to_owned();
                let (provider, id) = (name("provider"), name("id"));
                Ok(json!(handlers::model::set_model(self, &provider, &id).is_ok()))
            }
            Request::WaitForIdle if self.is_at_work() => {
                return self.extensions.idle_waiters.push(answer);
            }
            Request::WaitForIdle => Ok(Value::Null),
            Request::RunTool { name, arguments, cwd, .. } => {
                return self.run_tool(&name, arguments, cwd, answer);
            }
            Request::NewSession { parent_session, entries } => {
                return self.extension_new_session(parent_session, entries, answer);
            }
            Request::SwitchSession { path } => return self.extension_switch_session(&path, answer),
            Request::Fork { entry_id, position } => {
                let is_at = position.as_deref() == Some("at");
                return self.extension_fork(entry_id, is_at, answer);
            }
            Request::Compact { custom_instructions } => {
                return self.extension_compact(custom_instructions, answer);
            }
            Request::NavigateTree { target_id, options } => {
                return self.extension_navigate(target_id, options, answer);
            }
            Request::RefreshModels { options } => return self.refresh_models(options, answer),
            Request::StoredModels { provider } => {
                return self.reply_with_stored_models(provider, answer);
            }
            Request::StoreModels { provider, entry } => {
                return self.store_models(provider, entry, answer);
            }
            Request::BeforeProviderRequest { payload } => {
                return self.run_payload_hook(payload, answer);
            }
            Request::AfterProviderResponse { status, headers } => {
                if let Some(host) = &self.extensions.host {
                    host.emit(&ExtensionEvent::AfterProviderResponse { status, headers });
                }
                Ok(Value::Null)
            }
            Request::ApiKey { provider } => return self.reply_with_key(&provider, answer),
            Request::ApiKeyAndHeaders { model } => return self.reply_with_auth(&model, answer),
            Request::Reload => return self.reload(Requester::Extension(answer)),
        };
        answer.respond(done);
    }

    /// Runs a built-in tool for an extension that wraps it. Cancelled when the extension stops
    /// waiting.
    fn run_tool(&mut self, name: &str, arguments: Value, cwd: String, mut answer: ExtensionReply) {
        let tool = tiller_tools::builtin().into_iter().find(|tool| tool.name() == name);
        let (Some(tool), Value::Object(arguments)) = (tool, arguments) else {
            let error = Err(format!("there is no built-in tool called {name}"));
            return answer.respond(error);
        };
        let cwd = std::sync::Arc::new(std::path::PathBuf::from(cwd));
        let env = self.workspace.env.clone();
        tokio::spawn(async move {
            let cancel = CancellationToken::new();
            let (cx, _shown) = ToolContext::new(cwd, cancel.clone(), true, env);
            let running = tool.run(arguments, cx);
            tokio::pin!(running);
            let result = tokio::select! {
                biased;
                result = &mut running => result,
                () = answer.closed() => {
                    cancel.cancel();
                    running.await
                }
            };
            let result = result.map(|output| json!(output)).map_err(|failure| failure.message);
            answer.respond(result);
        });
    }
}
