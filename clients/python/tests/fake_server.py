"""A server of many sessions for tests, on a Unix socket and a WebSocket.

It speaks the protocol of `tiller serve` as far as the tests need it. Its model plays the steps `say`,
`chunk words`, `repeat`, `call` and `hang` of a script. The prompt `/ask` opens a dialog.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Record = dict[str, Any]

READING = {"get_state", "get_messages", "get_events", "get_limits", "hello", "detach"}
COMMANDS = ["open_session", "close_session", "list_open_sessions", "attach", "detach", "prompt"]
USAGE: Record = {
    "input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2, "reasoning": 0,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0, "totalFromProvider": False},
}  # fmt: skip


class Refused(Exception):
    def __init__(self, error: str, code: str | None = None, handle: str | None = None) -> None:
        super().__init__(error)
        self.code = code
        self.handle = handle


class AnsweredLater(Exception):
    """A task will write the response."""


class Connection:
    """One client. Subclasses know how a line is written."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def lines(self, handle: Callable[[bytes], None]) -> None:
        while line := await self.reader.readline():
            handle(line)

    def write(self, record: Record) -> None:
        if not self.writer.is_closing():
            self.write_line(json.dumps(record).encode())

    def write_line(self, line: bytes) -> None:
        self.writer.write(line + b"\n")


class WebSocketConnection(Connection):
    """Long messages are sent in three fragments with a ping between them."""

    pongs = 0

    async def lines(self, handle: Callable[[bytes], None]) -> None:
        message = b""
        while True:
            first, second = await self.reader.readexactly(2)
            assert second & 0x80, "a client masks its frames"
            length = second & 0x7F
            if length > 125:
                length = int.from_bytes(await self.reader.readexactly(2 if length == 126 else 8), "big")
            mask = await self.reader.readexactly(4)
            masked = await self.reader.readexactly(length)
            payload = bytes(byte ^ mask[index % 4] for index, byte in enumerate(masked))
            opcode = first & 0x0F
            if opcode == 8:
                self.frame(0x88, payload)
                return
            if opcode == 10:
                assert payload == b"still there?"
                self.pongs += 1
            elif opcode in (0, 1):
                message += payload
                if first & 0x80:
                    handle(message)
                    message = b""

    def write_line(self, line: bytes) -> None:
        if len(line) < 1000:
            self.frame(0x81, line)
            return
        self.frame(0x01, line[:300])
        self.frame(0x89, b"still there?")
        self.frame(0x00, line[300:999])
        self.frame(0x80, line[999:])

    def frame(self, first: int, payload: bytes) -> None:
        length = len(payload)
        if length < 126:
            size = bytes([length])
        elif length < 1 << 16:
            size = b"\x7e" + length.to_bytes(2, "big")
        else:
            size = b"\x7f" + length.to_bytes(8, "big")
        self.writer.write(bytes([first]) + size + payload)


@dataclass(eq=False)
class Stream:
    """The numbered records of one client of one session. `connection` is None while it is gone."""

    connection: Connection | None
    mode: str
    epoch: str = field(default_factory=lambda: uuid.uuid4().hex)
    kept: list[Record] = field(default_factory=list[Record])

    def write(self, record: Record) -> None:
        record = {**record, "seq": len(self.kept) + 1, "epoch": self.epoch}
        self.kept.append(record)
        if self.connection is not None:
            self.connection.write(record)


class Session:
    def __init__(self, server: FakeServer, handle: str, command: Record) -> None:
        self.server = server
        self.handle = handle
        self.durable_id = command.get("sessionId") or str(uuid.uuid4())
        self.cwd = command.get("cwd") or "/"
        self.name: str | None = command.get("name")
        self.messages: list[Record] = server.stored.get(self.durable_id, [])
        self.answers = [answer.splitlines() for answer in server.script.split("\n\n") if answer.strip()]
        self.streams: list[Stream] = []
        self.tools: dict[str, Stream] = {}
        self.open_calls: dict[str, asyncio.Future[Record]] = {}
        self.limits: Record = {}
        self.run: asyncio.Task[None] | None = None
        #: The records that opened what is still open, for clients that join.
        self.open_records: list[Record] = []

    def emit(self, record: Record) -> None:
        for stream in self.streams:
            stream.write({**record, "sessionId": self.handle})

    def stream_of(self, connection: Connection) -> Stream | None:
        return next((stream for stream in self.streams if stream.connection is connection), None)

    def attached(self) -> list[Stream]:
        return [stream for stream in self.streams if stream.connection is not None]

    def state(self) -> Record:
        return {
            "sessionId": self.durable_id,
            "sessionFile": f"{self.cwd}/{self.durable_id}.jsonl",
            "isStreaming": self.run is not None,
            "messageCount": len(self.messages),
        }

    def leave(self, connection: Connection) -> None:
        for stream in self.streams:
            if stream.connection is connection:
                stream.connection = None
                self.tools = {name: owner for name, owner in self.tools.items() if owner is not stream}

    # A run

    async def play(self, stream: Stream, command: Record) -> None:
        turns, status = 0, "done"
        reason: str | None = None
        try:
            self.open_records = [{"type": "agent_start"}]
            self.emit({"type": "agent_start"})
            self.emit({"type": "turn_start"})
            self.add({"role": "user", "content": [{"type": "text", "text": command["message"]}]}, command)
            calls = True
            while calls:
                turns += 1
                if self.limits.get("maxTurns", turns) < turns:
                    turns, status, reason = turns - 1, "limit", "maxTurns"
                    break
                calls = await self.answer()
                self.emit({"type": "turn_end", "toolResults": []})
        except asyncio.CancelledError:
            status, reason = "aborted", "abort"
            self.emit({"type": "turn_end", "toolResults": []})
        self.emit({"type": "agent_end", "messages": [], "willRetry": False})
        self.result(stream, command, status, reason, turns)
        self.run = None
        self.open_records = []
        self.emit({"type": "agent_settled", "aborted": status == "aborted"})

    def result(self, stream: Stream, command: Record, status: str, reason: str | None, turns: int) -> None:
        record = {
            "type": "prompt_result", "id": command["id"], "clientMessageId": command["clientMessageId"],
            "command": "prompt", "status": status, "runs": 1, "turns": turns, "messages": 2, "usage": USAGE,
            "cost": 0, "durationMs": 1, "sessionId": self.handle,
        }  # fmt: skip
        stream.write({**record, "reason": reason} if reason else record)

    def add(self, message: Record, command: Record | None = None) -> None:
        named = {"clientMessageId": command["clientMessageId"]} if command else {}
        self.emit({"type": "message_start", "message": message, **named})
        self.emit({"type": "message_end", "message": message})
        self.messages.append(message)

    async def answer(self) -> bool:
        """Plays one answer of the model. Returns whether it called tools."""
        message: Record = {"role": "assistant", "content": [], "stopReason": "pending"}
        start = {"type": "message_start", "message": dict(message)}
        self.emit(start)
        self.open_records = [self.open_records[0], start]
        text, calls = "", list[tuple[str, Record]]()
        steps = self.answers.pop(0) if self.answers else ["say script exhausted"]
        for step in steps:
            kind, _, rest = step.partition(" ")
            pieces: list[str] = []
            if kind == "say":
                pieces = [f" {word}" if index else word for index, word in enumerate(rest.split(" "))]
            elif kind == "repeat":
                count, _, word = rest.partition(" ")
                pieces = [word] * int(count)
            elif kind == "call":
                name, _, arguments = rest.partition(" ")
                calls.append((name, json.loads(arguments or "{}")))
            elif kind == "hang":
                await asyncio.Future()
            for piece in pieces:
                text += piece
                update = {"type": "text_delta", "contentIndex": 0, "delta": piece}
                record = {"type": "message_update", "usage": USAGE, "assistantMessageEvent": update}
                self.emit(record)
                self.open_records.append(record)
        message = {**message, "content": [{"type": "text", "text": text}], "stopReason": "stop"}
        self.emit({"type": "message_end", "message": message})
        self.messages.append(message)
        self.open_records = self.open_records[:1]
        for tool, tool_arguments in calls:
            await self.call(tool, tool_arguments)
        return bool(calls)

    async def call(self, name: str, arguments: Record) -> None:
        call_id, host_id = f"call_{uuid.uuid4().hex[:6]}", f"host_{len(self.open_calls) + 1}"
        start = {"type": "tool_execution_start", "toolCallId": call_id, "toolName": name, "args": arguments}
        self.emit(start)
        self.open_records.append(start)
        future = self.open_calls[host_id] = asyncio.get_running_loop().create_future()
        call = {"type": "host_tool_call", "id": host_id, "toolCallId": call_id, "toolName": name}
        owner = self.tools.get(name)
        if owner is None:
            outcome: Record = {"result": {"content": [{"type": "text", "text": f"no tool {name}"}]}, "isError": True}
        else:
            owner.write({**call, "arguments": arguments, "sessionId": self.handle})
            try:
                outcome = await future
            except asyncio.CancelledError:
                owner.write({"type": "host_tool_cancel", "id": "x", "targetId": host_id, "sessionId": self.handle})
                raise
        failed = outcome.get("isError") is True
        end = {"type": "tool_execution_end", "toolCallId": call_id, "toolName": name, "isError": failed}
        self.emit({**end, "result": outcome["result"]})
        content = outcome["result"]["content"]
        self.add({"role": "toolResult", "toolCallId": call_id, "toolName": name, "content": content})

    async def ask(self, stream: Stream, command: Record) -> None:
        response = {"id": command["id"], "type": "response", "command": "prompt"}
        dialog_id = uuid.uuid4().hex
        future = self.open_calls[dialog_id] = asyncio.get_running_loop().create_future()
        ask = {"type": "extension_ui_request", "id": dialog_id, "method": "select", "title": "Which?"}
        question = {**ask, "options": ["red", "green"]}
        self.open_records = [question]
        self.emit(question)
        answer = (await future).get("value")
        stream.write({**response, "success": True, "data": {"disposition": "handled"}, "sessionId": self.handle})
        self.open_records = []
        self.emit({"type": "extension_ui_closed", "id": dialog_id})
        notice = {"type": "extension_ui_request", "id": "n", "method": "notify", "notifyType": "info"}
        self.emit({**notice, "message": json.dumps(answer)})
        self.run = None
        self.result(stream, command, "handled", None, 0)

    # The commands of a session

    def handle_command(self, stream: Stream, command: Record) -> object:
        kind: str = command["type"]
        if kind == "prompt":
            return self.prompt(stream, command)
        if kind == "get_state":
            return self.state()
        if kind == "get_messages":
            return {"messages": self.messages}
        if kind == "set_session_name":
            self.name = command["name"]
            self.emit({"type": "session_info_changed", "name": self.name})
            return None
        if kind == "set_host_tools":
            names = [tool["name"] for tool in command["tools"]]
            self.tools = {name: owner for name, owner in self.tools.items() if owner is not stream}
            self.tools.update(dict.fromkeys(names, stream))
            return {"toolNames": names}
        if kind == "set_limits":
            self.limits = {key: value for key, value in command.items() if key.startswith("max")}
        if kind in ("set_limits", "get_limits"):
            return {"limits": self.limits}
        if kind == "get_events":
            if command.get("epoch", stream.epoch) != stream.epoch:
                return {"events": [], "truncated": True, "more": False, "lastSeq": 0, "epoch": stream.epoch}
            events = stream.kept[command["since"] :]
            return {"events": events, "truncated": False, "more": False, "lastSeq": 0, "epoch": stream.epoch}
        raise Refused(f"Unknown command: {kind}")

    def prompt(self, stream: Stream, command: Record) -> Record:
        if self.run is not None:
            raise Refused("Agent is already processing")
        is_question = command["message"] == "/ask"
        work = self.ask(stream, command) if is_question else self.play(stream, command)
        # The run begins after the response.
        self.run = asyncio.get_running_loop().create_task(work)
        if is_question:
            raise AnsweredLater
        return {"disposition": "started"}

    async def abort(self) -> None:
        if self.run is not None:
            run = self.run
            run.cancel()
            await asyncio.wait([run])

    def close(self, reason: str) -> None:
        del self.server.sessions[self.handle]
        self.server.stored[self.durable_id] = self.messages
        for stream in self.attached():
            if stream.connection is not None:
                stream.connection.write({"type": "session_closed", "sessionId": self.handle, "reason": reason})


class FakeServer:
    """Runs in a thread of its own, from `start` to `stop`."""

    def __init__(self, folder: Path, script: str) -> None:
        self.script = script
        self.token = "the-token"
        self.unix = f"unix:{folder / 'tiller.sock'}"
        self.ws = ""
        self.sessions: dict[str, Session] = {}
        self.stored: dict[str, list[Record]] = {}
        self.connections: set[Connection] = set()
        #: The commands of the server that are not answered until the test says so.
        self.held: dict[str, list[Callable[[], None]]] = {}
        self.commands: list[str] = list(COMMANDS)
        self.is_stopping = False
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stopped: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._main(folder),))

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def run(self, function: Callable[[], object]) -> None:
        """Runs a function in the thread of the server."""
        done = threading.Event()

        def call() -> None:
            function()
            done.set()

        self._loop.call_soon_threadsafe(call)
        done.wait()

    def stop(self) -> None:
        """Ends the server as SIGTERM does."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._spawn, self._stop())
        self._thread.join()
        self._loop.close()

    def end(self) -> None:
        """The end of a test."""
        self.stop()

    async def _main(self, folder: Path) -> None:
        self._stopped = asyncio.Event()
        unix = await asyncio.start_unix_server(self._accept_unix, self.unix[5:], limit=1 << 26)
        tcp = await asyncio.start_server(self._accept_tcp, "127.0.0.1", 0)
        self.ws = "ws://127.0.0.1:%d" % tcp.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopped.wait()
        unix.close()
        tcp.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self.connections):
            connection.writer.close()
        await asyncio.sleep(0)

    async def _stop(self) -> None:
        self.is_stopping = True
        for connection in self.connections:
            connection.write({"type": "server_stopping", "seconds": 30})
        for session in list(self.sessions.values()):
            await session.abort()
            session.close("server_stopping")
        for connection in self.connections:
            await connection.writer.drain()
        assert self._stopped is not None
        self._stopped.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept_unix(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve(Connection(reader, writer))

    async def _accept_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        if headers.get("authorization") != f"Bearer {self.token}":
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        assert head[0] == "GET / HTTP/1.1" and headers["host"] and headers["sec-websocket-version"] == "13"
        digest = hashlib.sha1((headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode())
        accept = base64.b64encode(digest.digest()).decode()
        upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        writer.write(f"{upgrade}Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        await self._serve(WebSocketConnection(reader, writer))

    async def _serve(self, connection: Connection) -> None:
        self.connections.add(connection)
        try:
            await connection.lines(lambda line: self._receive(connection, json.loads(line)))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        self.connections.discard(connection)
        for session in self.sessions.values():
            session.leave(connection)
        connection.writer.close()

    def _receive(self, connection: Connection, command: Record) -> None:
        kind = command["type"]
        if kind in self.held:
            self.held[kind].append(lambda: self._answer(connection, command))
        else:
            self._answer(connection, command)

    def _answer(self, connection: Connection, command: Record) -> None:
        kind, handle = command["type"], command.get("sessionId")
        own: Callable[[Connection, Record], Record | None] | None = getattr(self, f"_on_{kind}", None)
        response: Record = {"type": "response", "command": kind}
        if "id" in command:
            response["id"] = command["id"]
        stream: Stream | None = None
        after: list[Record] = []
        try:
            if own is not None:
                data: object = own(connection, command)
                if isinstance(data, dict) and "after" in data:
                    after = data.pop("after")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            elif handle is None:
                raise Refused(f"{kind} needs a sessionId", "missing_session_id")
            else:
                session = self._session(connection, handle)
                stream = session.stream_of(connection)
                assert stream is not None
                if stream.mode == "watch" and kind not in READING:
                    raise Refused("this client only watches the session", "watching")
                if kind in ("host_tool_result", "extension_ui_response"):
                    future = session.open_calls.get(command["id"])
                    if future is not None and not future.done():
                        future.set_result(command)
                    return
                if kind == "abort":
                    self._spawn(self._abort(session, stream, response))
                    return
                data = session.handle_command(stream, command)
            response["success"] = True
            if data is not None:
                response["data"] = data
        except AnsweredLater:
            return
        except Refused as refused:
            response.update(success=False, error=str(refused))
            if refused.code is not None:
                response["code"] = refused.code
            if refused.handle is not None:
                response["data"] = {"sessionId": refused.handle}
        if stream is None:
            connection.write(response)
        else:
            stream.write({**response, "sessionId": handle})
        for record in after:
            connection.write(record)

    async def _abort(self, session: Session, stream: Stream, response: Record) -> None:
        await session.abort()
        stream.write({**response, "success": True, "sessionId": session.handle})

    def _session(self, connection: Connection | None, handle: str) -> Session:
        session = self.sessions.get(handle)
        if session is None or (connection is not None and session.stream_of(connection) is None):
            raise Refused(f"there is no open session {handle}", "unknown_session")
        return session

    # The commands of the server

    def _on_hello(self, connection: Connection, command: Record) -> Record:
        assert command["wire"] == "pi-delta" and command["promptResults"] and command["sequence"]
        return {"server": "fake", "version": "9", "commands": self.commands, "events": [], "limits": {}}

    def _on_open_session(self, connection: Connection, command: Record) -> Record:
        if self.is_stopping:
            raise Refused("the server is about to end", "server_stopping")
        durable_id, cwd = command.get("sessionId"), command.get("cwd")
        if cwd is not None and not Path(cwd).is_dir():
            raise Refused(f"the folder {cwd} does not exist", "cannot_open")
        for session in self.sessions.values():
            if durable_id == session.durable_id:
                raise Refused("the session is open", "session_in_use", session.handle)
        if durable_id is not None and durable_id not in self.stored:
            raise Refused(f"there is no session {durable_id}", "cannot_open")
        self._count += 1
        handle = f"s{self._count}-{uuid.uuid4().hex[:4]}"
        session = self.sessions[handle] = Session(self, handle, command)
        session.streams.append(Stream(connection, "control"))
        return {"sessionId": handle, "state": session.state()}

    def _on_close_session(self, connection: Connection, command: Record) -> None:
        session = self._session(connection, command["sessionId"])
        stream = session.stream_of(connection)
        if stream is not None and stream.mode == "watch":
            raise Refused("this client only watches the session", "watching")
        response = {"type": "response", "command": "close_session", "success": True, "id": command.get("id")}
        self._spawn(self._close(connection, session, response))
        raise AnsweredLater

    async def _close(self, connection: Connection, session: Session, response: Record) -> None:
        await session.abort()
        session.close("closed")
        connection.write(response)

    def _on_list_open_sessions(self, connection: Connection, command: Record) -> Record:
        sessions = [
            {
                "sessionId": session.handle, "durableId": session.durable_id, "cwd": session.cwd,
                "status": "idle" if session.run is None else "running",
                "attached": session.stream_of(connection) is not None, "clients": len(session.attached()),
                "messageCount": len(session.messages), "queuedMessageCount": 0, "lastActive": 1,
                **({} if session.name is None else {"name": session.name}),
            }
            for session in self.sessions.values()
        ]  # fmt: skip
        return {"sessions": sessions}

    def _on_list_sessions(self, connection: Connection, command: Record) -> Record:
        assert "sessionId" not in command
        sessions = [{"id": durable_id, "path": durable_id} for durable_id in self.stored]
        return {"sessions": sessions, "next": None}

    def _on_attach(self, connection: Connection, command: Record) -> Record:
        session = self._session(None, command["sessionId"])
        mode = command.get("mode", "control")
        if mode == "takeover":
            for other in session.attached():
                assert other.connection is not None
                gone = {"type": "session_detached", "sessionId": session.handle, "reason": "taken_over"}
                other.connection.write(gone)
                session.leave(other.connection)
        data: Record = {"sessionId": session.handle, "state": session.state()}
        if "since" not in command:
            stream = Stream(connection, mode)
            session.streams.append(stream)
            opened = [{**record, "sessionId": session.handle} for record in session.open_records]
            numbered = [{**record, "seq": index + 1, "epoch": stream.epoch} for index, record in enumerate(opened)]
            stream.kept = numbered
            return {**data, "after": numbered}
        for stream in session.streams:
            if stream.epoch == command["epoch"] and stream.connection is None:
                stream.connection, stream.mode = connection, mode
                missed = stream.kept[command["since"] :]
                return {**data, "replay": {"records": len(missed), "truncated": False}, "after": missed}
        session.streams.append(Stream(connection, mode))
        return {**data, "replay": {"records": 0, "truncated": True}}

    def _on_detach(self, connection: Connection, command: Record) -> None:
        self._session(connection, command["sessionId"]).leave(connection)
