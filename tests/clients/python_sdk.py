"""Drives `tiller acp` with the Python SDK of the Agent Client Protocol, unmodified.

    python3 python_sdk.py TILLER

The package agent-client-protocol must be installed.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import acp
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

TILLER = sys.argv[1]
GATE = Path(__file__).parent / "gate.ts"


class Editor(acp.Client):
    """A user who answers permissions as told, and an editor that keeps every update."""

    def __init__(self):
        self.decision = "allow_once"
        self.permissions = []
        self.updates = []

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.permissions.append(tool_call)
        chosen = [option for option in options if option.kind == self.decision]
        if not chosen:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        outcome = AllowedOutcome(outcome="selected", option_id=chosen[0].option_id)
        return RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append((session_id, update))

    def of(self, session_id, kind):
        return [
            update
            for session, update in self.updates
            if session == session_id and update.session_update == kind
        ]

    def text(self, session_id):
        return "".join(update.content.text for update in self.of(session_id, "agent_message_chunk"))


async def until(what):
    while not what():
        await asyncio.sleep(0.005)


async def drive(home):
    editor = Editor()
    arguments = ["acp", "--model", "tiller/demo", "--extension", str(GATE)]
    environment = {"PATH": os.environ["PATH"], "HOME": home}
    async with acp.spawn_agent_process(
        editor, TILLER, *arguments, env=environment, cwd=home
    ) as (agent, process):

        async def prompt(session_id, words):
            return await agent.prompt(session_id=session_id, prompt=[acp.text_block(words)])

        initialized = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert initialized.protocol_version == 1, initialized
        assert initialized.agent_info.name == "tiller", initialized

        # A prompt with a tool.
        session = (await agent.new_session(cwd=home, mcp_servers=[])).session_id
        answer = await prompt(session, "What is in this folder?")
        assert answer.stop_reason == "end_turn", answer
        assert "notes.md" in editor.text(session), editor.text(session)
        assert editor.of(session, "tool_call")[0].kind == "execute"
        assert editor.of(session, "tool_call_update")[-1].status == "completed"

        # Cancelled in a tool.
        slept = asyncio.create_task(prompt(session, "Run `sleep 300`"))
        await until(lambda: len(editor.of(session, "tool_call")) == 2)
        await agent.cancel(session_id=session)
        assert (await slept).stop_reason == "cancelled"

        # Permissions: allowed, denied, closed.
        for decision, status in [
            ("allow_once", "completed"),
            ("reject_once", "failed"),
            ("cancelled", "failed"),
        ]:
            editor.decision = decision
            asked = len(editor.permissions)
            assert (await prompt(session, "Run `echo gate`")).stop_reason == "end_turn"
            assert len(editor.permissions) == asked + 1
            call = editor.permissions[-1].tool_call_id
            ends = [
                update
                for update in editor.of(session, "tool_call_update")
                if update.tool_call_id == call
            ]
            assert ends[-1].status == status, (decision, ends[-1])

        # Two sessions.
        other = (await agent.new_session(cwd=home, mcp_servers=[])).session_id
        both = await asyncio.gather(
            prompt(session, "What is 2 + 3?"), prompt(other, "What is 20 + 30?")
        )
        assert [one.stop_reason for one in both] == ["end_turn", "end_turn"]
        assert "50" in editor.text(other)

        # Listed, and loaded with its conversation.
        listed = await agent.list_sessions(cwd=home)
        assert {one.session_id for one in listed.sessions} == {session, other}
        await agent.close_session(session_id=other)
        editor.updates.clear()
        await agent.load_session(cwd=home, session_id=other, mcp_servers=[])
        shown = editor.of(other, "user_message_chunk")
        assert shown[0].content.text == "What is 20 + 30?", shown
        try:
            await agent.load_session(cwd=home, session_id="none", mcp_servers=[])
        except acp.RequestError:
            pass
        else:
            raise AssertionError("a session that does not exist was loaded")


with tempfile.TemporaryDirectory() as folder:
    folder = os.path.realpath(folder)
    Path(folder, "notes.md").write_text("hello\n")
    asyncio.run(asyncio.wait_for(drive(folder), timeout=60))
