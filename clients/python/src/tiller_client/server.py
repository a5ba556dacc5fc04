"""A server of many sessions, for programs with threads."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from ._address import UnixAddress, parse_address, read_token
from ._core import Channel, Core, Reply, read_as, without_none
from ._sessions import (
    ENDED_CODES,
    MAX_EARLY_EVENTS,
    Leave,
    Position,
    ReplayedRequests,
    Router,
    SessionLink,
    absolute,
    attach_command,
    check_server,
    open_command,
    read_position,
)
from ._socket import SocketTransport
from ._start import CLOSE_SECONDS, SERVER_HELLO, START_SECONDS, weakly
from ._transport import Transport
from .client import Client, EventStream
from .dialogs import Answer, Dialog, Display, Notice
from .errors import ClientClosed, CommandRefused, ConnectionLost, EventsLost, TillerError, Timeout
from .server_types import AttachMode, OpenSession, OpenSessionData, OpenSessionsData
from .tools import Tools
from .types import Event, HelloData, SessionsData, StateData, ThinkingLevel

T = TypeVar("T")


class Session(Client):
    """One session of a server. It has the methods of a `Client`.

    `with` closes a session that was opened, and detaches the client from one that was attached.
    """

    def __init__(
        self,
        server: Server,
        link: SessionLink,
        data: OpenSessionData,
        mode: AttachMode | None,
        *,
        tools: Tools | Iterable[Callable[..., object]] | None,
        on_dialog: Callable[[Dialog], Answer] | None,
        on_notify: Callable[[Notice], object] | None,
        on_display: Callable[[Display], object] | None,
        timeout: float | None,
        position: Position | None,
    ) -> None:
        """Made by `Server.open_session` and `Server.attach`."""
        self._owner = server
        self._link = link
        self._state = data["state"]
        self._handle_of_session = data["sessionId"]
        self._mode = mode
        self._position = position
        self._replayed = None if position is None else ReplayedRequests(position.last_seq)
        self._early: Channel[Event] | None = None
        super().__init__(
            link, tools=tools, on_dialog=on_dialog, on_notify=on_notify, on_display=on_display, timeout=timeout
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mode is None:
            self.close()
        else:
            self.detach()

    @property
    def handle(self) -> str:
        """The name of the open session in this server, such as `s1-5f0c`. `Server.attach` takes it."""
        return self._handle_of_session

    @property
    def state(self) -> StateData:
        """The state when the session was opened or attached. `state["sessionId"]` is its durable id."""
        return self._state

    def close(self) -> None:
        """Ends the session in the server. Returns when it has ended.

        A run in progress is aborted, and its events still arrive. Closing twice is not an error.
        """
        self._leave("close_session")

    def detach(self) -> None:
        """Leaves the session, which goes on in the server."""
        self._leave("detach")

    def events(self, *, timeout: float | None = None) -> EventStream:
        """All events from now on. `timeout` limits the wait for each of them.

        After `attach` the first stream begins with the first record that followed: nothing is lost
        if the session was continued with `since`.
        """
        with self._changed:
            early, self._early = self._early, None
            if early is not None:
                early.limit = None
                return EventStream(self, early, timeout)
        return super().events(timeout=timeout)

    def _leave(self, command: Leave) -> None:
        with self._changed:
            is_open = not self._core.ended
            self._core.closing = True
        if is_open:
            try:
                self._owner.request({"type": command, "sessionId": self.handle}, timeout=CLOSE_SECONDS)
            except CommandRefused as refused:
                # The session has ended meanwhile, or is about to.
                if refused.code not in ENDED_CODES:
                    self._core.closing = False
                    raise
            except (ConnectionLost, ClientClosed):
                pass
        self._finalizer.detach()
        self._link.drop()
        self._finish()

    def _make_core(self) -> Core:
        core = Core(self._link.prefix)
        if self._position is not None:
            core.last_seq = self._position.since
            core.epoch = self._position.epoch
        return core

    def _open(self, first_tools: Tools) -> None:
        if self._mode is not None:
            self._early = self._core.subscribe(MAX_EARLY_EVENTS)
        # A replay may have a call that is still open.
        for tool in first_tools:
            self._tools.add(tool)
        super()._open(first_tools)

    def _greet(self, timeout: float) -> HelloData:
        return self._owner.hello

    def _give_up(self) -> None:
        self._leave("close_session" if self._mode is None else "detach")

    def _handle(self, record: dict[str, Any]) -> None:
        ready = [record] if self._replayed is None else self._replayed.filter(record)
        for one in ready:
            super()._handle(one)

    def _ask_user(self, dialog: Dialog) -> None:
        # The other clients have the dialog too. One that cannot answer must not cancel it for them.
        if self._mode is None or (self._on_dialog is not None and self._mode != "watch"):
            super()._ask_user(dialog)


class Server:
    """A connection to `tiller serve`, which holds many sessions.

    Any thread may call any method. `connect` connects, `close` ends the connection, and `with` does
    both. The sessions go on in the server unless they are closed.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        timeout: float | None = None,
        start_timeout: float = START_SECONDS,
        on_stopping: Callable[[float], object] | None = None,
    ) -> None:
        """Connects over a transport. `connect` is the usual way to get a server."""
        self._transport = transport
        self._timeout = timeout
        self._on_stopping = on_stopping
        self._changed = threading.Condition()
        self._router = Router(transport, self._receive_own)
        self._core = Core(self._router.server_prefix)
        transport.open(weakly(self._receive), weakly(self._end))
        self._finalizer = weakref.finalize(self, transport.request_close)
        try:
            data: object = self.request(SERVER_HELLO, timeout=start_timeout)
            self._hello = read_as(HelloData, data, "hello")
            check_server(self._hello)
        except BaseException:
            self.close()
            raise

    @classmethod
    def connect(
        cls,
        address: str | None = None,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        start_timeout: float = START_SECONDS,
        on_stopping: Callable[[float], object] | None = None,
    ) -> Server:
        """Connects to `unix:PATH` or `ws://HOST:PORT`, by default to `tiller.sock` in the agent folder.

        A WebSocket needs a token: `token`, or the text of `token_file`, by default `serve-token` in
        the agent folder. `timeout` limits the wait for each response, in seconds. `on_stopping` is
        called with a number of seconds when the server is about to end.
        """
        where = parse_address(address)
        secret = None if isinstance(where, UnixAddress) else read_token(token, token_file)
        return cls(
            SocketTransport(where, secret, start_timeout),
            timeout=timeout,
            start_timeout=start_timeout,
            on_stopping=on_stopping,
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. The sessions go on in the server. Closing twice is not an error."""
        with self._changed:
            self._core.closing = True
        self._finalizer.detach()
        self._transport.close()
        self._end(ClientClosed("the connection is closed"))

    @property
    def hello(self) -> HelloData:
        """What the server said about itself at the start: version, commands, events, limits."""
        return self._hello

    @property
    def stopping_seconds(self) -> float | None:
        """How long runs have to finish, if the server has said that it is about to end."""
        return self._router.stopping_seconds

    def open_session(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        provider: str | None = None,
        model_id: str | None = None,
        thinking_level: ThinkingLevel | None = None,
        name: str | None = None,
        active_tools: Sequence[str] | None = None,
        session_path: str | os.PathLike[str] | None = None,
        session_id: str | None = None,
        in_memory: bool | None = None,
        tools: Tools | Iterable[Callable[..., object]] | None = None,
        on_dialog: Callable[[Dialog], Answer] | None = None,
        on_notify: Callable[[Notice], object] | None = None,
        on_display: Callable[[Display], object] | None = None,
        timeout: float | None = None,
    ) -> Session:
        """Opens a session: a new one, or the stored one of `session_path` or `session_id`.

        `cwd` is the working directory of the agent, by default that of the server. `model` has the
        form `provider/id`. `active_tools` names the tools that the model may use, and `tools` are
        functions of this program, as in `Client.start`.
        """
        command = open_command(
            cwd=cwd,
            model=model,
            provider=provider,
            model_id=model_id,
            thinking_level=thinking_level,
            name=name,
            active_tools=None if active_tools is None else list(active_tools),
            session_path=session_path,
            session_id=session_id,
            in_memory=in_memory,
        )
        link = self._router.link("close_session")
        data = self._open(link, command)
        return Session(
            self,
            link,
            data,
            None,
            tools=tools,
            on_dialog=on_dialog,
            on_notify=on_notify,
            on_display=on_display,
            timeout=self._timeout if timeout is None else timeout,
            position=None,
        )

    def attach(
        self,
        handle: str,
        *,
        mode: AttachMode = "control",
        since: int | None = None,
        epoch: str | None = None,
        tools: Tools | Iterable[Callable[..., object]] | None = None,
        on_dialog: Callable[[Dialog], Answer] | None = None,
        on_notify: Callable[[Notice], object] | None = None,
        on_display: Callable[[Display], object] | None = None,
        timeout: float | None = None,
    ) -> Session:
        """Attaches this client to an open session.

        With the mode `watch` it can only read, and with `takeover` all other clients are detached.
        `since` and `epoch` continue the events after that number, as `last_seq` and `epoch` of the
        session had them when the connection was lost. If the server no longer has all of them, it
        raises `EventsLost`, and the client is not attached.

        Without `on_dialog` the dialogs are left to the other clients of the session.
        """
        command = attach_command(handle, mode, since, epoch)
        if self._router.has(handle):
            raise ValueError(f"this connection has the session {handle} already: detach it first")
        link = self._router.link("detach")
        data = self._open(link, command)
        try:
            position = read_position(data, since, epoch)
        except EventsLost:
            link.request_close()
            raise
        return Session(
            self,
            link,
            data,
            mode,
            tools=tools,
            on_dialog=on_dialog,
            on_notify=on_notify,
            on_display=on_display,
            timeout=self._timeout if timeout is None else timeout,
            position=position,
        )

    def list_open_sessions(self) -> list[OpenSession]:
        """The sessions that the server has open."""
        data: object = self.request({"type": "list_open_sessions"})
        return read_as(OpenSessionsData, data, "list_open_sessions")["sessions"]

    def list_sessions(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        limit: int | None = None,
        before: str | None = None,
        name: str | None = None,
        search: str | None = None,
        modified_since: int | None = None,
        modified_until: int | None = None,
    ) -> SessionsData:
        """The stored sessions of a folder, by default those of all folders, newest first.

        `name` is a part of the name; `search` is for words in messages and names. The times are in
        milliseconds since 1970; `modified_until` itself does not belong to the range.
        """
        command = {
            "type": "list_sessions",
            "cwd": absolute(cwd),
            "limit": limit,
            "before": before,
            "name": name,
            "search": search,
            "modifiedSince": modified_since,
            "modifiedUntil": modified_until,
        }
        data: object = self.request(without_none(command))
        return read_as(SessionsData, data, "list_sessions")

    def request(self, command: Mapping[str, object], *, timeout: float | None = None) -> Any:
        """Sends any command that is not for an attached session, and returns the `data` of its response."""
        with self._changed:
            reply, line = self._core.request(command)
            self._transport.send(line)
        try:
            self._wait(reply, self._timeout if timeout is None else timeout)
        finally:
            with self._changed:
                self._core.forget(reply)
        return reply.data()

    def _open(self, link: SessionLink, command: Mapping[str, object]) -> OpenSessionData:
        """Sends the command that binds a link to its session."""
        try:
            with self._changed:
                reply, line = self._core.request(command)
                reply.on_data = link.bind
                self._router.add(link)
                self._transport.send(line)
            self._wait(reply, self._timeout)
            return read_as(OpenSessionData, reply.data(), command["type"])
        except CommandRefused:
            link.drop()
            raise
        except BaseException:
            # The response may still come, and then the session is left at once.
            with self._changed:
                link.abandon()
            raise

    def _wait(self, reply: Reply, timeout: float | None) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: reply.done, timeout):
                raise Timeout(f"the server did not answer {reply.command} within {timeout} s")

    # Records. These run in a thread of the transport, and must not wait.

    def _receive(self, records: list[dict[str, Any]]) -> None:
        self._router.receive(records)

    def _receive_own(self, record: dict[str, Any]) -> None:
        """A record that belongs to no session."""
        with self._changed:
            self._core.receive(record)
            self._changed.notify_all()
        if record.get("type") == "server_stopping" and self._on_stopping is not None:
            arguments = (self._router.stopping_seconds,)
            threading.Thread(target=self._on_stopping, args=arguments, daemon=True).start()

    def _end(self, error: TillerError) -> None:
        error = self._router.explain(error)
        with self._changed:
            self._core.end(error)
            closing = self._core.closing
            self._changed.notify_all()
        self._router.end(ClientClosed("the connection is closed") if closing else error)
