//! Routes a command to its handler, and turns the handler's result into exactly one response.

use tiller_protocol::{Command, Image, Label, Refusal, Reply, Request};

use crate::connection::WireFormat;
use crate::extensions::dialogs;
use crate::held_requests::TOO_MANY;
use crate::project_state::LoadReason;
use crate::prompt_results::Origin;
use crate::state::SessionState;
use crate::work::run;
use crate::{handlers, project_state};

/// The result of a handler.
pub(crate) enum Response {
    Now(Reply),
    /// The response comes when the work is done.
    Later,
    /// The command has no response.
    Never,
}

/// The error of a handler is a sentence; the command's name is added here.
pub(crate) type Handled = Result<Response, String>;

/// Takes a request of the client. Requests that refer to held ones wait behind them: an `abort`
/// refers to the prompts before it, and `get_state` returns the state after them.
pub(crate) fn receive(state: &mut SessionState, request: Request, format: WireFormat) {
    if state.transition.held().has_no_room_for(&request) && would_wait(state, &request) {
        return refuse(state, request);
    }
    let command = request.command.as_ref();
    let reads_state = matches!(command, Ok(Command::GetState));
    let has_front = !state.transition.held().is_empty() || reads_state && state.owes_change();
    if !has_front || !command.is_ok_and(Command::follows_waiting) {
        return dispatch(state, request, format);
    }
    match command {
        // A run is aborted at once, also while the response waits.
        Ok(Command::Abort) if state.is_occupied() => run::abort(state),
        Ok(Command::AbortBash) => state.client_bash.abort_all(),
        _ => {}
    }
    state.transition.held_mut().push_back(request);
}

/// Whether a request would be held back if others are.
fn would_wait(state: &SessionState, request: &Request) -> bool {
    let overtakes = |command: &Command| command.is_urgent() && !command.follows_waiting();
    state.project.holds_back(request) || !request.command.as_ref().is_ok_and(overtakes)
}

/// Refuses a request that would have to be held back where there is no room.
fn refuse(state: &mut SessionState, request: Request) {
    let refusal = match request.command {
        Ok(command) => {
            let label = Label { client: request.client, id: None, command: command.name() };
            Refusal::of(&label, TOO_MANY.to_owned())
        }
        Err(refusal) => refusal,
    };
    state.outbox.refuse(request.client, request.id, refusal);
}

pub(crate) fn dispatch(state: &mut SessionState, request: Request, format: WireFormat) {
    if state.project.holds_back(&request) {
        return state.transition.held_mut().push_back(request);
    }
    let Request { client, id, command, line_bytes } = request;
    let command = match command {
        Ok(command) => command,
        // Held requests are answered in the order of their lines, refusals included.
        Err(refusal) if state.project.is_awaited() || state.is_changing() => {
            return state.transition.held_mut().push_back(Request {
                client,
                id,
                command: Err(refusal),
                line_bytes,
            });
        }
        Err(refusal) => return state.outbox.refuse(client, id, refusal),
    };
    if state.is_changing() && !command.is_urgent() {
        return state.transition.held_mut().push_back(Request {
            client,
            id,
            command: Ok(command),
            line_bytes,
        });
    }
    if command.needs_place(format.level) && !state.project.is_loaded() {
        let held = Request { client, id, command: Ok(command), line_bytes };
        state.transition.held_mut().push_front(held);
        return project_state::load(state, LoadReason::Need);
    }
    let label = Label { client, id, command: command.name() };
    match handle(state, &label, command, format) {
        Ok(Response::Now(reply)) => state.respond(label, Ok(reply)),
        Ok(Response::Later | Response::Never) => {}
        Err(error) => state.respond(label, Err(error)),
    }
}

fn handle(
    state: &mut SessionState,
    label: &Label,
    command: Command,
    format: WireFormat,
) -> Handled {
    let level = format.level;
    match command {
        Command::Prompt(body) => {
            let images = Image::blocks(body.images);
            let origin = origin(label, body.client_message_id);
            handlers::prompt::prompt(state, level, origin, body.message, images, body.when_busy)
        }
        Command::Steer(body) => {
            let images = Image::blocks(body.images);
            let origin = origin(label, body.client_message_id);
            handlers::prompt::steer(state, level, origin, body.message, images)
        }
        Command::FollowUp(body) => {
            let images = Image::blocks(body.images);
            let origin = origin(label, body.client_message_id);
            handlers::prompt::follow_up(state, level, origin, body.message, images)
        }
        Command::Abort => handlers::abort::abort(state, label),
        Command::AbortAndPrompt(body) => {
            let images = Image::blocks(body.images);
            let origin = origin(label, body.client_message_id);
            handlers::abort::abort_and_prompt(state, origin, body.message, images)
        }
        Command::ClearQueue => handlers::queue::clear_queue(state),
        Command::GetQueue => handlers::queue::get_queue(state),
        Command::UpdateQueued(body) => handlers::queue::update_queued(state, body),
        Command::RemoveQueued(target) => handlers::queue::remove_queued(state, &target),
        Command::SetLimits(limits) => handlers::limits::set_limits(state, limits),
        Command::SetApprovals(body) => handlers::approvals::set_approvals(state, body.mode),
        Command::GetSandbox => handlers::sandbox::get_sandbox(state, label),
        Command::GetLimits => handlers::limits::get_limits(state),
        Command::SetSteeringMode(body) => handlers::queue::set_steering_mode(state, body.mode),
        Command::SetFollowUpMode(body) => handlers::queue::set_follow_up_mode(state, body.mode),
        Command::SetInterruptMode(body) => handlers::queue::set_interrupt_mode(state, body.mode),
        Command::GetState => handlers::get_state::get_state(state, level),
        Command::GetMessages(range) => handlers::get_state::get_messages(state, &format, &range),
        Command::GetMessagesPage(page) => handlers::page::get_messages_page(state, level, &page),
        Command::GetLastAssistantText => handlers::get_state::get_last_assistant_text(state, level),
        Command::GetSessionStats => handlers::stats::get_session_stats(state, level),
        Command::ExportHtml(body) => {
            handlers::export_html::export_html(state, label, level, body.output_path.as_deref())
        }
        Command::Bash(body) => {
            handlers::bash::bash(state, level, label, body.command, body.exclude_from_context)
        }
        Command::AbortBash => handlers::bash::abort_bash(state),
        Command::Compact(body) => handlers::compaction::compact(state, level, label, body.focus),
        Command::SetAutoCompaction(body) => {
            handlers::compaction::set_auto_compaction(state, body.enabled)
        }
        Command::SetAutoRetry(body) => handlers::retry::set_auto_retry(state, body.enabled),
        Command::AbortRetry => handlers::retry::abort_retry(state),
        Command::SetModel(body) => {
            handlers::model::set_model(state, &body.provider, &body.model_id)
        }
        Command::CycleModel => handlers::model::cycle_model(state),
        Command::GetAvailableModels(range) => {
            handlers::model::get_available_models(state, &format, &range)
        }
        Command::GetIntegrations => handlers::model::get_integrations(state),
        Command::SetThinkingLevel(body) => handlers::thinking::set_level(state, body.level),
        Command::CycleThinkingLevel => handlers::thinking::cycle_level(state),
        Command::GetAvailableThinkingLevels => handlers::thinking::get_levels(state),
        Command::SetSessionName(body) => {
            handlers::session::set_name(state, &level.session_name(body.name))
        }
        Command::NewSession(body) => {
            handlers::session::new_session(state, label, body.parent_session)
        }
        Command::SwitchSession(body) => handlers::session::switch(state, label, body.path),
        Command::Fork(body) | Command::Branch(body) => {
            handlers::session::fork(state, label, body.entry_id)
        }
        Command::Clone => handlers::session::clone(state, label),
        Command::NavigateTree(body) => handlers::tree::navigate(state, label, body.entry_id),
        Command::SetLabel(body) => handlers::tree::set_label(state, &body.entry_id, body.label),
        Command::GetForkMessages | Command::GetBranchMessages => {
            handlers::tree::get_fork_messages(state)
        }
        Command::GetEntries(request) => handlers::tree::get_entries(state, &format, &request),
        Command::GetTree => handlers::tree::get_tree(state),
        Command::ListSessions(options) => handlers::session::list(state, label, options),
        Command::GetCommands => handlers::resources::get_commands(state),
        Command::GetAvailableCommands => handlers::resources::get_available_commands(state),
        Command::Reload => handlers::resources::reload(state, label),
        Command::GetSettings => handlers::settings::get_settings(state),
        Command::SetSetting(change) => handlers::settings::set_setting(state, level, change),
        Command::GetTools => handlers::tools::get_tools(state),
        Command::SetActiveTools(body) => handlers::tools::set_active_tools(state, body.tools),
        Command::GetDiagnostics => handlers::diagnostics::get_diagnostics(state),
        Command::GetCapabilities => handlers::hello::get_capabilities(format),
        Command::GetEvents(body) => handlers::replay::get_events(state, label, body),
        Command::GetRecord(body) => handlers::replay::get_record(state, label, body),
        Command::SetHostTools(body) => {
            handlers::host_tools::set_host_tools(state, label.client, body.tools)
        }
        Command::HostToolUpdate(body) => {
            handlers::host_tools::update(state, &body.id, body.partial_result)
        }
        Command::HostToolResult(body) => {
            let id = body.id.clone();
            handlers::host_tools::result(state, &id, body.into_result())
        }
        Command::SetMcpServers(body) => handlers::mcp::set_mcp_servers(state, body),
        Command::GetMcpServers => handlers::mcp::get_mcp_servers(state),
        Command::SetTodos(body) => handlers::todos::set_todos(state, body.phases),
        Command::Hello(hello) => handlers::hello::hello(state, label.client, hello, format),
        Command::ExtensionUiResponse(body) => {
            dialogs::ui_answered(state, &body.id, body.answer);
            Ok(Response::Never)
        }
    }
}

fn origin(label: &Label, client_message_id: Option<String>) -> Origin {
    Origin { label: label.clone(), client_message_id }
}
