"""The commands for asyncio. Made from `_commands.py` by `scripts/make_async.py`: do not edit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from .media import Image, image_blocks
from .types import (
    ActiveToolsData,
    ApprovalMode,
    ApprovalsData,
    AvailableCommandsData,
    BashData,
    Capabilities,
    ChangeData,
    ClearedQueuesData,
    CommandsData,
    CompactionResult,
    CycledLevelData,
    CycledModelData,
    DiagnosticsData,
    EntriesData,
    EventsData,
    ExportData,
    ForkMessagesData,
    HostToolsData,
    IntegrationsData,
    InterruptMode,
    LastTextData,
    LimitsData,
    McpServerEntry,
    McpServersData,
    MessagesData,
    MessagesPageData,
    Model,
    ModelsData,
    QueueData,
    QueueMode,
    QueuedMessageData,
    RecordPiece,
    ReloadData,
    SandboxReport,
    SessionsData,
    SettingData,
    SettingsData,
    StateData,
    StatsData,
    ThinkingLevel,
    ThinkingLevelsData,
    TodosData,
    ToolsData,
    TreeData,
)

T = TypeVar("T")
Path = str | os.PathLike[str]


class AsyncCommands:
    """The commands. A client adds how they are sent."""

    async def request(self, command: Mapping[str, object], *, timeout: float | None = None) -> Any:
        """Sends any command and returns the `data` of its response."""
        raise NotImplementedError

    async def _ask(self, expected: type[T], command: Mapping[str, object]) -> T:
        raise NotImplementedError

    async def _ask_or_none(self, expected: type[T], command: Mapping[str, object]) -> T | None:
        raise NotImplementedError

    async def _tell(self, command: Mapping[str, object]) -> None:
        raise NotImplementedError

    # Prompts and queues

    async def abort(self) -> None:
        """Stops the current run. Returns when it has ended."""
        return await self._tell({"type": "abort"})

    async def clear_queue(self) -> ClearedQueuesData:
        """Empties both queues and returns the texts that were in them."""
        return await self._ask(ClearedQueuesData, {"type": "clear_queue"})

    async def get_queue(self) -> QueueData:
        """The queued messages, with the ids that `update_queued` and `remove_queued` take."""
        return await self._ask(QueueData, {"type": "get_queue"})

    async def update_queued(
        self,
        message: str,
        *,
        queue_id: str | None = None,
        client_message_id: str | None = None,
        images: Sequence[Image] | None = None,
    ) -> QueuedMessageData:
        """Replaces the text and the images of a queued message."""
        return await self._ask(
            QueuedMessageData,
            {
                "type": "update_queued",
                "queueId": queue_id,
                "clientMessageId": client_message_id,
                "message": message,
                "images": image_blocks(images),
            },
        )

    async def remove_queued(
        self, *, queue_id: str | None = None, client_message_id: str | None = None
    ) -> QueuedMessageData:
        """Removes a queued message. Its result has the status `dropped`."""
        return await self._ask(
            QueuedMessageData,
            {"type": "remove_queued", "queueId": queue_id, "clientMessageId": client_message_id},
        )

    async def set_steering_mode(self, mode: QueueMode) -> None:
        """Whether steering messages are sent all at once or one at a time."""
        return await self._tell({"type": "set_steering_mode", "mode": mode})

    async def set_follow_up_mode(self, mode: QueueMode) -> None:
        """Whether follow-ups are sent all at once or one at a time."""
        return await self._tell({"type": "set_follow_up_mode", "mode": mode})

    async def set_interrupt_mode(self, mode: InterruptMode) -> None:
        """Whether a steering message waits for the running tools or stops them."""
        return await self._tell({"type": "set_interrupt_mode", "mode": mode})

    async def compact(self, custom_instructions: str | None = None) -> CompactionResult:
        """Replaces the older part of the conversation with a summary."""
        return await self._ask(CompactionResult, {"type": "compact", "customInstructions": custom_instructions})

    async def set_auto_compaction(self, enabled: bool) -> None:
        """Whether long conversations are compacted automatically."""
        return await self._tell({"type": "set_auto_compaction", "enabled": enabled})

    async def set_auto_retry(self, enabled: bool) -> None:
        """Whether answers that failed for a temporary reason are requested again."""
        return await self._tell({"type": "set_auto_retry", "enabled": enabled})

    async def abort_retry(self) -> None:
        """Cancels the pause before the next retry."""
        return await self._tell({"type": "abort_retry"})

    async def set_approvals(self, mode: ApprovalMode) -> ApprovalsData:
        """Which tool calls need an approval, for this session. Returns the mode in force."""
        return await self._ask(ApprovalsData, {"type": "set_approvals", "mode": mode})

    async def get_sandbox(self) -> SandboxReport:
        """What the sandbox of the tools prevents, and what it does not."""
        return await self._ask(SandboxReport, {"type": "get_sandbox"})

    async def set_limits(
        self,
        *,
        max_turns: int | None = None,
        max_tool_calls: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        max_seconds: float | None = None,
        tool_memory_bytes: int | None = None,
        tool_seconds: float | None = None,
    ) -> LimitsData:
        """Replaces all limits. A limit that is not given does not apply."""
        return await self._ask(
            LimitsData,
            {
                "type": "set_limits",
                "maxTurns": max_turns,
                "maxToolCalls": max_tool_calls,
                "maxTokens": max_tokens,
                "maxCost": max_cost,
                "maxSeconds": max_seconds,
                "toolMemoryBytes": tool_memory_bytes,
                "toolSeconds": tool_seconds,
            },
        )

    async def get_limits(self) -> LimitsData:
        """The limits that apply now."""
        return await self._ask(LimitsData, {"type": "get_limits"})

    # State

    async def get_state(self) -> StateData:
        """The model, the modes, the session and what is in progress."""
        return await self._ask(StateData, {"type": "get_state"})

    async def get_messages(self, *, offset: int | None = None, limit: int | None = None) -> MessagesData:
        """The messages of the current branch, oldest first."""
        return await self._ask(MessagesData, {"type": "get_messages", "offset": offset, "limit": limit})

    async def get_messages_page(self, *, cursor: str | None = None, limit: int | None = None) -> MessagesPageData:
        """The same in pages with a cursor, as clients of omp use it."""
        return await self._ask(MessagesPageData, {"type": "get_messages_page", "cursor": cursor, "limit": limit})

    async def get_last_assistant_text(self) -> str | None:
        """The text of the newest answer, or None if there is none."""
        return (await self._ask(LastTextData, {"type": "get_last_assistant_text"})).get("text")

    async def get_session_stats(self) -> StatsData:
        """The tokens, the cost and the size of the session."""
        return await self._ask(StatsData, {"type": "get_session_stats"})

    async def export_html(self, output_path: Path | None = None) -> ExportData:
        """Writes the session as an HTML page and returns its path."""
        path = None if output_path is None else os.fspath(output_path)
        return await self._ask(ExportData, {"type": "export_html", "outputPath": path})

    async def get_diagnostics(self) -> DiagnosticsData:
        """The problems that tiller has found in settings, extensions and other files."""
        return await self._ask(DiagnosticsData, {"type": "get_diagnostics"})

    async def get_capabilities(self) -> Capabilities:
        """What this tiller supports."""
        return await self._ask(Capabilities, {"type": "get_capabilities"})

    async def get_events(self, since: int, *, epoch: str | None = None, limit: int | None = None) -> EventsData:
        """Records that were written before. `replay` is the more convenient form."""
        return await self._ask(EventsData, {"type": "get_events", "since": since, "epoch": epoch, "limit": limit})

    async def get_record(
        self, record_id: str, *, offset: int | None = None, limit: int | None = None
    ) -> RecordPiece:
        """A piece of a record that was too long for one line."""
        return await self._ask(
            RecordPiece, {"type": "get_record", "recordId": record_id, "offset": offset, "limit": limit}
        )

    # The model

    async def set_model(self, provider: str, model_id: str) -> Model:
        """Selects a model from the next request on."""
        return await self._ask(Model, {"type": "set_model", "provider": provider, "modelId": model_id})

    async def cycle_model(self) -> CycledModelData | None:
        """Selects the next model, or returns None if there is no other."""
        return await self._ask_or_none(CycledModelData, {"type": "cycle_model"})

    async def get_available_models(self, *, offset: int | None = None, limit: int | None = None) -> ModelsData:
        """The models that can be used now."""
        return await self._ask(ModelsData, {"type": "get_available_models", "offset": offset, "limit": limit})

    async def get_integrations(self) -> IntegrationsData:
        """The connection to the model, as clients of xcsh ask for it."""
        return await self._ask(IntegrationsData, {"type": "get_integrations"})

    async def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Selects a thinking level, as far as the model supports it."""
        return await self._tell({"type": "set_thinking_level", "level": level})

    async def cycle_thinking_level(self) -> CycledLevelData | None:
        """Selects the model's next thinking level, or returns None if there is no other."""
        return await self._ask_or_none(CycledLevelData, {"type": "cycle_thinking_level"})

    async def get_available_thinking_levels(self) -> ThinkingLevelsData:
        """The thinking levels of the model."""
        return await self._ask(ThinkingLevelsData, {"type": "get_available_thinking_levels"})

    # Settings

    async def get_settings(self) -> SettingsData:
        """The settings in use, and the keys of those that can be changed."""
        return await self._ask(SettingsData, {"type": "get_settings"})

    async def set_setting(self, key: str, value: object) -> SettingData:
        """Changes a setting for this process. With None the settings files count again."""
        return await self._ask(SettingData, {"type": "set_setting", "key": key, "value": value})

    # Tools, skills and templates

    async def get_tools(self) -> ToolsData:
        """All tools: built in, of extensions and of this client."""
        return await self._ask(ToolsData, {"type": "get_tools"})

    async def set_active_tools(self, tools: Sequence[str]) -> ActiveToolsData:
        """Selects the tools that the model is offered, by name."""
        return await self._ask(ActiveToolsData, {"type": "set_active_tools", "tools": list(tools)})

    async def set_host_tools(self, tools: Sequence[Mapping[str, object]]) -> HostToolsData:
        """Offers tools by their definitions. `client.tool` is the more convenient form."""
        return await self._ask(HostToolsData, {"type": "set_host_tools", "tools": list(tools)})

    async def set_mcp_servers(self, servers: Mapping[str, McpServerEntry]) -> McpServersData:
        """Replaces the MCP servers that the client has set for this session."""
        return await self._ask(McpServersData, {"type": "set_mcp_servers", "mcpServers": dict(servers)})

    async def get_mcp_servers(self) -> McpServersData:
        """The MCP servers of the session, with their states, tools and errors."""
        return await self._ask(McpServersData, {"type": "get_mcp_servers"})

    async def get_commands(self) -> CommandsData:
        """The commands, templates and skills that a message can begin with."""
        return await self._ask(CommandsData, {"type": "get_commands"})

    async def get_available_commands(self) -> AvailableCommandsData:
        """The same in the format of omp."""
        return await self._ask(AvailableCommandsData, {"type": "get_available_commands"})

    async def reload(self) -> ReloadData:
        """Reads settings, skills, templates, context files and extensions again."""
        return await self._ask(ReloadData, {"type": "reload"})

    async def set_todos(self, phases: Sequence[Mapping[str, object]]) -> TodosData:
        """Replaces the todo list."""
        return await self._ask(TodosData, {"type": "set_todos", "phases": list(phases)})

    # Shell commands

    async def bash(self, command: str, *, exclude_from_context: bool = False) -> BashData:
        """Runs a shell command and returns when it has ended."""
        return await self._ask(
            BashData, {"type": "bash", "command": command, "excludeFromContext": exclude_from_context}
        )

    async def abort_bash(self) -> None:
        """Ends all commands that `bash` has started."""
        return await self._tell({"type": "abort_bash"})

    # Sessions

    async def new_session(self, parent_session: str | None = None) -> ChangeData:
        """Starts an empty session."""
        return await self._ask(ChangeData, {"type": "new_session", "parentSession": parent_session})

    async def switch_session(self, session_path: Path) -> ChangeData:
        """Opens a stored session."""
        return await self._ask(ChangeData, {"type": "switch_session", "sessionPath": os.fspath(session_path)})

    async def fork(self, entry_id: str) -> ChangeData:
        """Starts a session with everything before a user message, and returns its text."""
        return await self._ask(ChangeData, {"type": "fork", "entryId": entry_id})

    async def branch(self, entry_id: str) -> ChangeData:
        """`fork` under xcsh's name."""
        return await self._ask(ChangeData, {"type": "branch", "entryId": entry_id})

    async def clone(self) -> ChangeData:
        """Starts a session with everything up to here."""
        return await self._ask(ChangeData, {"type": "clone"})

    async def get_fork_messages(self) -> ForkMessagesData:
        """The user messages that `fork` can take."""
        return await self._ask(ForkMessagesData, {"type": "get_fork_messages"})

    async def get_branch_messages(self) -> ForkMessagesData:
        """The same under xcsh's name."""
        return await self._ask(ForkMessagesData, {"type": "get_branch_messages"})

    async def get_entries(
        self, *, since: str | None = None, offset: int | None = None, limit: int | None = None
    ) -> EntriesData:
        """The session's entries in the order of the file."""
        return await self._ask(
            EntriesData, {"type": "get_entries", "since": since, "offset": offset, "limit": limit}
        )

    async def get_tree(self) -> TreeData:
        """The session's entries as a tree."""
        return await self._ask(TreeData, {"type": "get_tree"})

    async def list_sessions(
        self,
        *,
        cwd: Path | None = None,
        all: bool | None = None,
        limit: int | None = None,
        before: str | None = None,
        name: str | None = None,
        search: str | None = None,
        modified_since: int | None = None,
        modified_until: int | None = None,
    ) -> SessionsData:
        """The stored sessions of a folder, or all of them, newest first.

        `name` is a part of the name; `search` is for words in messages and names. The times are in
        milliseconds since 1970; `modified_until` itself does not belong to the range.
        """
        return await self._ask(
            SessionsData,
            {
                "type": "list_sessions",
                "cwd": None if cwd is None else os.fspath(cwd),
                "all": all,
                "limit": limit,
                "before": before,
                "name": name,
                "search": search,
                "modifiedSince": modified_since,
                "modifiedUntil": modified_until,
            },
        )

    async def navigate_tree(self, entry_id: str) -> ChangeData:
        """Continues from another entry of this session."""
        return await self._ask(ChangeData, {"type": "navigate_tree", "entryId": entry_id})

    async def set_label(self, entry_id: str, label: str | None = None) -> None:
        """Labels an entry, or removes its label."""
        return await self._tell({"type": "set_label", "entryId": entry_id, "label": label})

    async def set_session_name(self, name: str) -> None:
        """Names the session."""
        return await self._tell({"type": "set_session_name", "name": name})
