"""A server of many sessions, for asyncio."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from ._address import UnixAddress, parse_address, read_token
from ._async_client import AsyncClient, AsyncEventStream, OnDialog, call
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
from .dialogs import Dialog, Display, Notice
from .errors import ClientClosed, CommandRefused, ConnectionLost, EventsLost, TillerError, Timeout
from .server_types import AttachMode, OpenSession, OpenSessionData, OpenSessionsData
from .tools import Tools
from .types import Event, HelloData, SessionsData, StateData, ThinkingLevel

T = TypeVar("T")


class AsyncSession(AsyncClient):
    """One session of a server. It has the methods of an `AsyncClient`.

    `await session` opens or attaches it. `async with` does that too, and at its end closes a session
    that was opened, and detaches the client from one that was attached.
    """

    def __init__(
        self,
        server: AsyncServer,
        link: SessionLink,
        command: Mapping[str, object],
        mode: AttachMode | None,
        *,
        tools: Tools | Iterable[Callable[..., object]] | None,
        on_dialog: OnDialog | None,
        on_notify: Callable[[Notice], object] | None,
        on_display: Callable[[Display], object] | None,
        timeout: float | None,
        since: int | None = None,
        epoch: str | None = None,
    ) -> None:
        """Made by `AsyncServer.open_session` and `AsyncServer.attach`."""
        self._owner = server
        self._link = link
        self._command = command
        self._mode = mode
        self._since = since
        self._epoch = epoch
        self._data: OpenSessionData | None = None
        self._replayed: ReplayedRequests | None = None
        self._early: Channel[Event] | None = None
        super().__init__(
            link, tools=tools, on_dialog=on_dialog, on_notify=on_notify, on_display=on_display, timeout=timeout
        )

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        return self._connect_session().__await__()

    async def __aenter__(self) -> AsyncSession:
        return await self._connect_session()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mode is None:
            await self.close()
        else:
            await self.detach()

    @property
    def handle(self) -> str:
        """The name of the open session in this server, such as `s1-5f0c`. `attach` takes it."""
        return self._opened()["sessionId"]

    @property
    def state(self) -> StateData:
        """The state when the session was opened or attached. `state["sessionId"]` is its durable id."""
        return self._opened()["state"]

    async def close(self) -> None:
        """Ends the session in the server. Returns when it has ended.

        A run in progress is aborted, and its events still arrive. Closing twice is not an error.
        """
        await self._leave("close_session")

    async def detach(self) -> None:
        """Leaves the session, which goes on in the server."""
        await self._leave("detach")

    def events(self, *, timeout: float | None = None) -> AsyncEventStream:
        """All events from now on. `timeout` limits the wait for each of them.

        After `attach` the first stream begins with the first record that followed: nothing is lost
        if the session was continued with `since`.
        """
        early, self._early = self._early, None
        if early is None:
            return super().events(timeout=timeout)
        early.limit = None
        return AsyncEventStream(self, early, timeout)

    async def _connect_session(self) -> AsyncSession:
        await self._connect()
        return self

    def _opened(self) -> OpenSessionData:
        if self._data is None:
            raise ClientClosed("the session has not been opened: use `async with` or `await`")
        return self._data

    async def _leave(self, command: Leave) -> None:
        if self._data is None:
            return
        is_open = not self._core.ended
        self._core.closing = True
        if is_open:
            try:
                await self._owner.request({"type": command, "sessionId": self.handle}, timeout=CLOSE_SECONDS)
            except CommandRefused as refused:
                # The session has ended meanwhile, or is about to.
                if refused.code not in ENDED_CODES:
                    self._core.closing = False
                    raise
            except (ConnectionLost, ClientClosed):
                pass
        self._link.drop()
        self._end(ClientClosed("the session is closed"))

    def _make_core(self) -> Core:
        return Core(self._link.prefix)

    async def _open(self) -> None:
        try:
            data = await self._owner.open_link(self._link, self._command)
        except BaseException:
            self._loop = None
            raise
        self._continue_from(data)
        if self._mode is not None:
            self._early = self._core.subscribe(MAX_EARLY_EVENTS)
        # A replay may have a call that is still open.
        for tool in self._first_tools:
            self._tools.add(tool)
        self._data = data
        self._link.open(weakly(self._receive), weakly(self._end))

    def _continue_from(self, data: OpenSessionData) -> None:
        try:
            position: Position | None = read_position(data, self._since, self._epoch)
        except EventsLost:
            self._loop = None
            self._link.request_close()
            raise
        if position is not None:
            self._core.last_seq = position.since
            self._core.epoch = position.epoch
            self._replayed = ReplayedRequests(position.last_seq)

    async def _greet(self, timeout: float) -> HelloData:
        return self._owner.hello

    async def _give_up(self) -> None:
        await self._leave("close_session" if self._mode is None else "detach")

    def _handle(self, record: dict[str, Any]) -> None:
        ready = [record] if self._replayed is None else self._replayed.filter(record)
        for one in ready:
            super()._handle(one)

    def _ask_user(self, dialog: Dialog) -> None:
        # The other clients have the dialog too. One that cannot answer must not cancel it for them.
        if self._mode is None or (self._on_dialog is not None and self._mode != "watch"):
            super()._ask_user(dialog)


class AsyncServer:
    """A connection to `tiller serve`, which holds many sessions.

    `async with AsyncServer.connect(...) as server` connects and ends the connection. The sessions go
    on in the server unless they are closed. All methods belong to one event loop.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        timeout: float | None = None,
        start_timeout: float = START_SECONDS,
        on_stopping: Callable[[float], object] | None = None,
    ) -> None:
        """Makes a server for a transport; `await server` connects it. `connect` is the usual way."""
        self._transport = transport
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._on_stopping = on_stopping
        self._router = Router(transport, self._receive_own)
        self._core = Core(self._router.server_prefix)
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hello: HelloData | None = None
        self._tasks: set[asyncio.Task[object]] = set()

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
    ) -> AsyncServer:
        """A connection that is made when it is awaited or entered by `async with`.

        The address is `unix:PATH` or `ws://HOST:PORT`, by default that of `tiller.sock` in the agent
        folder. A WebSocket needs a token: `token`, or the text of `token_file`, by default
        `serve-token` in the agent folder. `timeout` limits the wait for each response, in seconds.
        `on_stopping` is called with a number of seconds when the server is about to end.
        """
        where = parse_address(address)
        secret = None if isinstance(where, UnixAddress) else read_token(token, token_file)
        return cls(
            SocketTransport(where, secret, start_timeout),
            timeout=timeout,
            start_timeout=start_timeout,
            on_stopping=on_stopping,
        )

    def __await__(self) -> Generator[Any, None, AsyncServer]:
        return self._connect().__await__()

    async def __aenter__(self) -> AsyncServer:
        return await self._connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _connect(self) -> AsyncServer:
        if self._loop is not None:
            return self
        self._loop = asyncio.get_running_loop()
        opening = asyncio.ensure_future(
            call(self._transport.open, weakly(self._receive_in_thread), weakly(self._end_in_thread))
        )
        opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            await asyncio.shield(opening)
        except BaseException:
            # A connection that is made after a cancellation is ended at once.
            self._transport.request_close()
            self._loop = None
            raise
        weakref.finalize(self, self._transport.request_close)
        try:
            data: object = await self.request(SERVER_HELLO, timeout=self._start_timeout)
            self._hello = read_as(HelloData, data, "hello")
            check_server(self._hello)
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Ends the connection. The sessions go on in the server. Closing twice is not an error."""
        self._core.closing = True
        if self._loop is not None:
            self._transport.request_close()
            try:
                await asyncio.wait_for(self._until(lambda: self._core.ended), CLOSE_SECONDS)
            except asyncio.TimeoutError:
                pass  # The server does not end the connection.
        self._end(ClientClosed("the connection is closed"))

    @property
    def hello(self) -> HelloData:
        """What the server said about itself at the start: version, commands, events, limits."""
        if self._hello is None:
            raise ClientClosed("there is no connection: use `async with` or `await`")
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
        on_dialog: OnDialog | None = None,
        on_notify: Callable[[Notice], object] | None = None,
        on_display: Callable[[Display], object] | None = None,
        timeout: float | None = None,
    ) -> AsyncSession:
        """A session that is opened when it is awaited or entered by `async with`.

        It is a new one, or the stored one of `session_path` or `session_id`. `cwd` is the working
        directory of the agent, by default that of the server. `model` has the form `provider/id`.
        `active_tools` names the tools that the model may use, and `tools` are functions of this
        program, as in `AsyncClient.start`.
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
        return AsyncSession(
            self,
            self._router.link("close_session"),
            command,
            None,
            tools=tools,
            on_dialog=on_dialog,
            on_notify=on_notify,
            on_display=on_display,
            timeout=self._timeout if timeout is None else timeout,
        )

    def attach(
        self,
        handle: str,
        *,
        mode: AttachMode = "control",
        since: int | None = None,
        epoch: str | None = None,
        tools: Tools | Iterable[Callable[..., object]] | None = None,
        on_dialog: OnDialog | None = None,
        on_notify: Callable[[Notice], object] | None = None,
        on_display: Callable[[Display], object] | None = None,
        timeout: float | None = None,
    ) -> AsyncSession:
        """An open session, to which the client is attached by `await` or `async with`.

        With the mode `watch` it can only read, and with `takeover` all other clients are detached.
        `since` and `epoch` continue the events after that number, as `last_seq` and `epoch` of the
        session had them when the connection was lost. If the server no longer has all of them, it
        raises `EventsLost`, and the client is not attached.

        Without `on_dialog` the dialogs are left to the other clients of the session.
        """
        command = attach_command(handle, mode, since, epoch)
        if self._router.has(handle):
            raise ValueError(f"this connection has the session {handle} already: detach it first")
        return AsyncSession(
            self,
            self._router.link("detach"),
            command,
            mode,
            tools=tools,
            on_dialog=on_dialog,
            on_notify=on_notify,
            on_display=on_display,
            timeout=self._timeout if timeout is None else timeout,
            since=since,
            epoch=epoch,
        )

    async def list_open_sessions(self) -> list[OpenSession]:
        """The sessions that the server has open."""
        data: object = await self.request({"type": "list_open_sessions"})
        return read_as(OpenSessionsData, data, "list_open_sessions")["sessions"]

    async def list_sessions(
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
        data: object = await self.request(without_none(command))
        return read_as(SessionsData, data, "list_sessions")

    async def request(self, command: Mapping[str, object], *, timeout: float | None = None) -> Any:
        """Sends any command that is not for an attached session, and returns the `data` of its response."""
        reply = self._send(command)
        try:
            await self._wait(reply, self._timeout if timeout is None else timeout)
        finally:
            self._core.forget(reply)
        return reply.data()

    async def open_link(self, link: SessionLink, command: Mapping[str, object]) -> OpenSessionData:
        """Sends the command that binds a link to its session. For `AsyncSession`."""
        try:
            reply = self._send(command)
            reply.on_data = link.bind
            self._router.add(link)
            await self._wait(reply, self._timeout)
            return read_as(OpenSessionData, reply.data(), command["type"])
        except CommandRefused:
            link.drop()
            raise
        except BaseException:
            # The response may still come, and then the session is left at once.
            link.abandon()
            raise

    def _send(self, command: Mapping[str, object]) -> Reply:
        if self._loop is None:
            raise ClientClosed("there is no connection: use `async with` or `await`")
        reply, line = self._core.request(command)
        self._transport.send(line)
        return reply

    async def _wait(self, reply: Reply, timeout: float | None) -> None:
        try:
            await asyncio.wait_for(self._until(lambda: reply.done), timeout)
        except asyncio.TimeoutError as error:
            raise Timeout(f"the server did not answer {reply.command} within {timeout} s") from error

    async def _until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # Records. The first two run in a thread of the transport, the others in the loop.

    def _receive_in_thread(self, records: list[dict[str, Any]]) -> None:
        self._call_in_loop(self._receive, records)

    def _end_in_thread(self, error: TillerError) -> None:
        self._call_in_loop(self._end, error)

    def _call_in_loop(self, function: Callable[[T], None], argument: T) -> None:
        loop = self._loop
        try:
            if loop is not None:
                loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            # The loop is closed, so the connection can no longer be used.
            self._transport.request_close()

    def _receive(self, records: list[dict[str, Any]]) -> None:
        try:
            self._router.receive(records)
        except Exception as error:  # A bug of this package must not leave callers waiting.
            self._transport.request_close()
            self._end(ConnectionLost(f"cannot handle a record of tiller: {error!r}"))

    def _receive_own(self, record: dict[str, Any]) -> None:
        """A record that belongs to no session."""
        self._core.receive(record)
        self._wake()
        if record.get("type") == "server_stopping" and self._on_stopping is not None:
            task = asyncio.ensure_future(call(self._on_stopping, self._router.stopping_seconds))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _end(self, error: TillerError) -> None:
        error = self._router.explain(error)
        self._core.end(error)
        self._wake()
        self._router.end(ClientClosed("the connection is closed") if self._core.closing else error)
