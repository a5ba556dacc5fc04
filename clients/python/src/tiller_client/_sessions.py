"""Many sessions on one connection, without any input or output.

`Router` passes each record to the session that it is from, or to the server object. A session is a
client whose transport is a `SessionLink`: it adds the `sessionId` to each line, and gets only the
records of its session.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from ._core import without_none
from ._framing import encode
from ._transport import Ended, Receive, Transport
from .dialogs import QUESTIONS
from .errors import (
    ConnectionLost,
    EventsLost,
    ProtocolError,
    SessionClosed,
    SessionDetached,
    TillerError,
)
from .server_types import AttachMode, OpenSessionData

#: The commands by which a client can leave a session.
Leave = Literal["close_session", "detach"]

#: The codes of a refusal to leave a session that has ended, or is about to.
ENDED_CODES = ("unknown_session", "session_closing")

#: An attached session keeps at most so many events until `events` is called. A replay has up to
#: 10,000 of them.
MAX_EARLY_EVENTS = 20_000


class Router:
    """The sessions of one connection, by their handles and by the prefixes of their requests.

    The prefixes differ between connections: a replay contains the responses that an earlier
    connection got.
    """

    def __init__(self, transport: Transport, server: Callable[[dict[str, Any]], None]) -> None:
        """`server` gets the records that belong to no session."""
        self._transport = transport
        self._server = server
        self._name = uuid.uuid4().hex[:8]
        self._count = 0
        self._by_prefix: dict[str, SessionLink] = {}
        self._by_handle: dict[str, SessionLink] = {}
        #: How long runs have to finish, if the server has said that it is about to end.
        self.stopping_seconds: float | None = None
        #: The prefix of the requests that belong to no session.
        self.server_prefix = f"{self._name}-0."

    def link(self, leave: Leave) -> SessionLink:
        """The transport of a session that is about to be opened or attached."""
        self._count += 1
        return SessionLink(self, f"{self._name}-{self._count}.", leave)

    def add(self, link: SessionLink) -> None:
        """The command that opens the session is about to be sent."""
        self._by_prefix[link.prefix] = link

    def bind(self, link: SessionLink, handle: str) -> None:
        """The server has answered: the records with this handle belong to the link."""
        self._by_handle[handle] = link

    def drop(self, link: SessionLink) -> bool:
        """Records of this session are no longer passed on. False if that was so before."""
        if link.handle is not None and self._by_handle.get(link.handle) is link:
            del self._by_handle[link.handle]
        return self._by_prefix.pop(link.prefix, None) is not None

    def has(self, handle: str) -> bool:
        return handle in self._by_handle

    def send(self, line: bytes) -> None:
        self._transport.send(line)

    def receive(self, records: list[dict[str, Any]]) -> None:
        """Passes records on, those of one session together as far as they follow each other."""
        batch: list[dict[str, Any]] = []
        batch_link: SessionLink | None = None
        for record in records:
            link = self._link_of(record)
            if batch_link is not None and (link is not batch_link or is_end(record)):
                batch_link.deliver(batch)
                batch, batch_link = [], None
            if link is None:
                self._receive_for_server(record)
            elif is_end(record):
                self._end_session(link, record)
            else:
                batch_link = link
                batch.append(record)
        if batch_link is not None:
            batch_link.deliver(batch)

    def end(self, error: TillerError) -> None:
        """The connection is over, and so is every session of it."""
        links = list(self._by_prefix.values())
        self._by_prefix.clear()
        self._by_handle.clear()
        for link in links:
            is_stopped = self.stopping_seconds is not None and isinstance(error, ConnectionLost)
            if is_stopped and link.handle is not None:
                link.end(SessionClosed(link.handle, "server_stopping"))
            else:
                link.end(error)

    def explain(self, error: TillerError) -> TillerError:
        """The reason for the end of the connection."""
        if self.stopping_seconds is None or not isinstance(error, ConnectionLost):
            return error
        return ConnectionLost(f"the server has stopped: {error}")

    def _link_of(self, record: Mapping[str, Any]) -> SessionLink | None:
        if record.get("type") == "response":
            request_id = record.get("id")
            if isinstance(request_id, str):
                prefix = request_id[: request_id.rfind(".") + 1]
                if prefix == self.server_prefix:
                    return None
                if prefix in self._by_prefix:
                    return self._by_prefix[prefix]
        handle = record.get("sessionId")
        return self._by_handle.get(handle) if isinstance(handle, str) else None

    def _receive_for_server(self, record: dict[str, Any]) -> None:
        if record.get("type") == "server_stopping":
            self.stopping_seconds = float(record.get("seconds", 0))
            for link in list(self._by_handle.values()):
                link.deliver([record])
        # A record with an unknown handle is of a session that the client has just left.
        if "sessionId" not in record or record.get("type") == "response":
            self._server(record)

    def _end_session(self, link: SessionLink, record: Mapping[str, Any]) -> None:
        self.drop(link)
        handle, reason = str(record["sessionId"]), str(record.get("reason"))
        if record["type"] == "session_detached":
            link.end(SessionDetached(handle, reason))
        else:
            link.end(SessionClosed(handle, reason, record.get("error")))


def is_end(record: Mapping[str, Any]) -> bool:
    """Whether no record of the session follows."""
    return record.get("type") in ("session_closed", "session_detached")


class SessionLink:
    """The transport of one session. Keeps the records that come before it is opened."""

    def __init__(self, router: Router, prefix: str, leave: Leave) -> None:
        self._router = router
        self._leave: Leave = leave
        self._lock = threading.Lock()
        self._early: list[dict[str, Any]] = []
        self._early_end: TillerError | None = None
        self._receive: Receive | None = None
        self._ended: Ended | None = None
        self._is_abandoned = False
        self._suffix = b""
        #: The prefix of the session's requests.
        self.prefix = prefix
        #: The handle, when the server has answered.
        self.handle: str | None = None

    def bind(self, data: object) -> None:
        """The server has answered with this data. The next records may be of the session."""
        handle = cast("dict[str, object]", data).get("sessionId") if isinstance(data, dict) else None
        if not isinstance(handle, str):
            raise ProtocolError(f"the server has opened a session without a sessionId: {data!r}")
        self.handle = handle
        self._suffix = b',"sessionId":' + json.dumps(handle).encode("ascii") + b"}\n"
        if self._is_abandoned:
            self.request_close()
        else:
            self._router.bind(self, handle)

    def abandon(self) -> None:
        """The caller has given up before the session was ready: leaves it now or when it is open."""
        self._is_abandoned = True
        if self.handle is not None:
            self.request_close()

    def drop(self) -> None:
        """The client has left the session."""
        self._router.drop(self)

    # What the router does

    def deliver(self, records: list[dict[str, Any]]) -> None:
        with self._lock:
            if self._receive is None:
                self._early += records
                return
        try:
            self._receive(records)
        except Exception as error:  # Other sessions of the connection go on.
            self.request_close()
            self.end(ProtocolError(f"cannot handle a record of tiller: {error!r}"))

    def end(self, error: TillerError) -> None:
        with self._lock:
            if self._ended is None:
                self._early_end = error
                return
        self._ended(error)

    # What a client does: see `Transport`

    def open(self, receive: Receive, ended: Ended) -> None:
        with self._lock:
            if self._early:
                receive(self._early)
                self._early = []
            self._receive = receive
            self._ended = ended
            early_end = self._early_end
        if early_end is not None:
            ended(early_end)

    def send(self, line: bytes) -> None:
        self._router.send(line[: line.rindex(b"}")] + self._suffix)

    def request_close(self) -> None:
        """Leaves the session without a wait. Takes no lock: a finalizer may call it anywhere."""
        leave: Leave = self._leave if self._is_abandoned else "detach"
        if self._router.drop(self):
            self._router.send(encode({"type": leave, "sessionId": self.handle}))

    def close(self) -> None:
        self.request_close()

    def stderr_tail(self) -> str:
        return ""


@dataclass(frozen=True)
class Position:
    """Where an attached session continues its numbered events."""

    since: int
    epoch: str
    #: The number of the last record that is sent again.
    last_seq: int


def read_position(data: OpenSessionData, since: int | None, epoch: str | None) -> Position | None:
    """The position of an `attach` with `since`. Raises `EventsLost` if there would be a gap."""
    if since is None or epoch is None:
        return None
    replay = data.get("replay")
    if replay is None or replay["truncated"]:
        raise EventsLost(f"the server no longer has all events of {data['sessionId']} after {since}")
    return Position(since, epoch, since + replay["records"])


class ReplayedRequests:
    """Calls of tools and questions in a replay: only those that are still open are handled."""

    def __init__(self, last_seq: int) -> None:
        """The replay ends with this number."""
        self._last_seq = last_seq
        self._open: dict[str, dict[str, Any]] = {}
        self._is_over = False

    def filter(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        """The records that are to be handled now."""
        if self._is_over:
            return [record]
        seq = record.get("seq")
        if isinstance(seq, int) and seq > self._last_seq:
            return [*self._finish(), record]
        kind = record.get("type")
        ready: list[dict[str, Any]] = []
        if kind == "host_tool_call" or (kind == "extension_ui_request" and record["method"] in QUESTIONS):
            self._open[str(record["id"])] = record
        elif kind == "extension_ui_request":
            ready.append(record)
        elif kind == "host_tool_cancel":
            self._open.pop(str(record["targetId"]), None)
        elif kind == "extension_ui_closed":
            self._open.pop(str(record["id"]), None)
        elif kind == "tool_execution_end":
            call_id = record["toolCallId"]
            self._open = {key: value for key, value in self._open.items() if value.get("toolCallId") != call_id}
        return [*ready, *self._finish()] if seq == self._last_seq else ready

    def _finish(self) -> list[dict[str, Any]]:
        self._is_over = True
        return list(self._open.values())


def open_command(
    *,
    cwd: str | os.PathLike[str] | None,
    model: str | None,
    provider: str | None,
    model_id: str | None,
    thinking_level: str | None,
    name: str | None,
    active_tools: list[str] | None,
    session_path: str | os.PathLike[str] | None,
    session_id: str | None,
    in_memory: bool | None,
) -> dict[str, object]:
    """The command that opens a session. `model` is short for `provider` and `model_id`."""
    if model is not None:
        if provider is not None or model_id is not None:
            raise ValueError("use either model, or provider and model_id")
        provider, slash, model_id = model.partition("/")
        if not (provider and slash and model_id):
            raise ValueError(f"the model {model!r} is not of the form provider/id")
    return without_none(
        {
            "type": "open_session",
            "cwd": absolute(cwd),
            "provider": provider,
            "modelId": model_id,
            "thinkingLevel": thinking_level,
            "name": name,
            "tools": active_tools,
            "sessionPath": absolute(session_path),
            "sessionId": session_id,
            "inMemory": in_memory,
        }
    )


def attach_command(handle: str, mode: AttachMode, since: int | None, epoch: str | None) -> dict[str, object]:
    """The command that attaches the client to an open session."""
    if since is not None and epoch is None:
        raise ValueError("since needs the epoch of the event that it numbers")
    return without_none(
        {
            "type": "attach",
            "sessionId": handle,
            "mode": None if mode == "control" else mode,
            "since": since,
            "epoch": epoch,
        }
    )


def absolute(path: str | os.PathLike[str] | None) -> str | None:
    """The server has another working directory."""
    return None if path is None else os.path.abspath(os.fspath(path))


def check_server(hello: Mapping[str, Any]) -> None:
    """`hello` of a server of sessions names the command that opens one."""
    if "open_session" not in (hello.get("commands") or ()):
        raise ProtocolError(
            f"{hello.get('server')} {hello.get('version')} does not serve many sessions: it has no open_session"
        )
