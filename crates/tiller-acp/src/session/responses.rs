//! What follows the responses to a session's commands.

use agent_client_protocol_schema::v1::{
    ConfigOptionUpdate, RequestId, SessionUpdate, SetSessionConfigOptionResponse,
};
use tiller_protocol::data::{
    CommandsData, EntriesData, ModelsData, StateData, StatsData, ThinkingLevelsData,
};
use tiller_protocol::{Command, GetEntries, Response};

use super::{Session, Step};
use crate::json_rpc::internal;
use crate::link::Link;
use crate::opening::OpenKind;
use crate::replay::replay;
use crate::updates;

/// What the response to a command of a session is waited for.
#[derive(Clone, Debug)]
pub(crate) enum Awaited {
    McpServers,
    Models,
    Levels,
    Entries,
    Commands,
    /// The usage after the session was opened, after a turn, or after a change of the model.
    Usage,
    /// The usage at the end of a prompt, before its answer.
    LastUsage,
    Prompt,
    /// Whether a prompt was refused for lack of a key.
    KeyCheck {
        why: String,
    },
    /// An option was set for this request.
    OptionSet(RequestId),
    /// The model and the levels after a change, or to find out whether there was one.
    State(StateReason),
    LevelsAfter(StateReason),
    Closed,
}

/// Why the options of a session are read.
#[derive(Clone, Debug)]
pub(crate) enum StateReason {
    /// This request has set one.
    Set(RequestId),
    /// The session selected another thinking level.
    Change,
    /// A prompt is about to be answered. An extension may have selected another model.
    EndOfPrompt,
}

impl Awaited {
    /// The request of the client that waits for it and for nothing else.
    pub(crate) fn request(&self) -> Option<&RequestId> {
        match self {
            Awaited::OptionSet(request)
            | Awaited::State(StateReason::Set(request))
            | Awaited::LevelsAfter(StateReason::Set(request)) => Some(request),
            _ => None,
        }
    }
}

impl Session {
    /// The response to one of the session's commands.
    pub(crate) fn response(&mut self, awaited: Awaited, response: &Response<'_>, link: &mut Link) {
        match awaited {
            Awaited::McpServers => match &response.error {
                Some(why) => {
                    let why = format!("the session cannot use these MCP servers: {why}");
                    self.give_up(internal(why), link);
                }
                None => self.ask_for_models(link),
            },
            Awaited::Models => {
                if let Ok(data) = response.read::<ModelsData<'static>>() {
                    self.options.set_models(data.models.iter().map(|model| &**model));
                }
                self.command(&Command::GetAvailableThinkingLevels, Awaited::Levels, link);
            }
            Awaited::Levels => {
                self.take_levels(response);
                match &self.step {
                    Step::Opening(open) if matches!(open.kind, OpenKind::Load(_)) => {
                        self.command(&Command::GetEntries(GetEntries::ALL), Awaited::Entries, link);
                    }
                    _ => self.finish_opening(link),
                }
            }
            Awaited::Entries => match response.read::<EntriesData<'static>>() {
                Ok(entries) => {
                    for update in replay(&entries, &mut self.updates) {
                        link.update(&self.id, update);
                    }
                    self.finish_opening(link);
                }
                Err(why) => self.give_up(internal(why), link),
            },
            Awaited::Commands => {
                if let Ok(data) = response.read::<CommandsData>() {
                    self.update(updates::commands(&data), link);
                }
            }
            Awaited::Usage => self.show_usage(response, link),
            Awaited::LastUsage => {
                self.show_usage(response, link);
                self.answer_prompt(link);
            }
            Awaited::Prompt => {
                if let Some(why) = &response.error {
                    let why = why.clone().into_owned();
                    self.command(&Command::GetIntegrations, Awaited::KeyCheck { why }, link);
                }
            }
            Awaited::KeyCheck { why } => self.refuse_prompt(why, response, link),
            Awaited::OptionSet(request) => match &response.error {
                Some(why) => {
                    self.options_in_change -= 1;
                    link.refuse(&request, &internal(why.clone()));
                }
                None => {
                    let awaited = Awaited::State(StateReason::Set(request));
                    self.command(&Command::GetState, awaited, link);
                }
            },
            Awaited::State(reason) => {
                let state = response.read::<StateData<'static>>();
                let is_other_model = state.is_ok_and(|state| self.options.set_state(&state));
                match reason {
                    StateReason::EndOfPrompt if !is_other_model => {
                        self.command(&Command::GetSessionStats, Awaited::LastUsage, link);
                    }
                    reason => {
                        let awaited = Awaited::LevelsAfter(reason);
                        self.command(&Command::GetAvailableThinkingLevels, awaited, link);
                    }
                }
            }
            Awaited::LevelsAfter(reason) => {
                self.take_levels(response);
                let usage = match reason {
                    StateReason::Set(request) => {
                        self.options_in_change -= 1;
                        self.shown_options = self.options.options();
                        let options = self.shown_options.clone();
                        link.answer(&request, &SetSessionConfigOptionResponse::new(options));
                        Awaited::Usage
                    }
                    StateReason::Change => {
                        self.show_options(link);
                        Awaited::Usage
                    }
                    StateReason::EndOfPrompt => {
                        self.show_options(link);
                        Awaited::LastUsage
                    }
                };
                self.command(&Command::GetSessionStats, usage, link);
            }
            // `Connection` handles it.
            Awaited::Closed => {}
        }
    }

    fn take_levels(&mut self, response: &Response<'_>) {
        if let Ok(data) = response.read::<ThinkingLevelsData>() {
            self.options.set_levels(data.levels);
        }
    }

    fn show_usage(&mut self, response: &Response<'_>, link: &mut Link) {
        let stats = response.read::<StatsData<'static>>().ok();
        let usage = stats.as_ref().and_then(updates::usage);
        if let Some(update) = usage.filter(|usage| Some(usage) != self.usage.as_ref()) {
            self.usage = Some(update.clone());
            self.update(update, link);
        }
    }

    /// Shows the options, unless the client knows them or the answer to a request will have them.
    fn show_options(&mut self, link: &mut Link) {
        let options = self.options.options();
        if self.options_in_change > 0 || options == self.shown_options {
            return;
        }
        self.shown_options = options.clone();
        let update = ConfigOptionUpdate::new(options);
        self.update(SessionUpdate::ConfigOptionUpdate(update), link);
    }
}
