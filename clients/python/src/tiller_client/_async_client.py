"""The client for asyncio. It has the same methods as `Client`."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, Union, cast, overload

from ._async_commands import AsyncCommands
from ._core import Channel, Core, Reply, TurnState, check_hello, read_as, replay, seq_of, without_none
from ._framing import encode
from ._start import CLOSE_SECONDS, HELLO, START_SECONDS, prompt_command, stdio, weakly
from ._transport import StdioTransport, Transport
from .dialogs import Answer, Dialog, Display, Notice, answer_line, read_request
from .errors import ClientClosed, CommandRefused, TillerError, Timeout
from .media import Image
from .results import Result
from .tools import (
    Function,
    Tool,
    ToolContext,
    Tools,
    error_line,
    make_tool,
    registry,
    result_line,
    update_line,
)
from .types import Event, HelloData

T = TypeVar("T")
OnDialog = Callable[[Dialog], Union[Answer, Awaitable[Answer]]]
log = logging.getLogger("tiller_client")


class AsyncTurn:
    """A prompt and what becomes of it.

    `await turn` waits until tiller has accepted it, and `async for event in turn` goes through its
    events. An iteration that was left can be continued.
    """

    def __init__(self, client: AsyncClient, state: TurnState) -> None:
        self._client = client
        self._state = state

    @property
    def client_message_id(self) -> str:
        """The id of the message: the caller's, or one that the client has made."""
        return self._state.client_message_id

    @property
    def text(self) -> str:
        """The text of the newest answer, as far as it has arrived."""
        return self._state.text

    @property
    def done(self) -> bool:
        """Whether the result is there."""
        return self._state.phase == "over"

    def __await__(self) -> Generator[Any, None, AsyncTurn]:
        return self._accepted().__await__()

    async def _accepted(self) -> AsyncTurn:
        await self._client._accepted(self._state)  # pyright: ignore[reportPrivateUsage]
        return self

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await self._client._take(self._state.channel, None)  # pyright: ignore[reportPrivateUsage]

    async def text_stream(self) -> AsyncIterator[str]:
        """The pieces of the answers' text as they arrive."""
        async for event in self:
            if event["type"] == "message_update":
                step = event["assistantMessageEvent"]
                if step["type"] == "text_delta":
                    yield step["delta"]

    async def result(self, timeout: float | None = None) -> Result:
        """Waits for the end of the prompt. Raises `Timeout` after this many seconds."""
        state = self._state
        await self._client._wait(lambda: state.phase == "over", timeout)  # pyright: ignore[reportPrivateUsage]
        if state.error is not None:
            raise state.error
        assert state.result is not None
        return state.result

    async def abort(self) -> None:
        """Stops this prompt: takes it out of its queue, or aborts its run."""
        await self._accepted()
        if self._state.phase == "queued":
            try:
                await self._client.remove_queued(client_message_id=self.client_message_id)
                return
            except CommandRefused:
                pass  # It is being sent.
        if not self.done:
            await self._client.abort()

    def steer(self, message: str, *, images: Sequence[Image] | None = None) -> AsyncTurn:
        """Sends a message that the model gets after the tools of the current turn.

        If the run has ended meanwhile, the message starts another one.
        """
        return self._client.prompt(message, images=images, when_busy="steer")

    def follow_up(self, message: str, *, images: Sequence[Image] | None = None) -> AsyncTurn:
        """Sends a message that the model gets when the run would otherwise end.

        If the run has ended meanwhile, the message starts another one.
        """
        return self._client.prompt(message, images=images, when_busy="followUp")


class AsyncEventStream:
    """All events from a point on. Ends when the client is closed."""

    def __init__(self, client: AsyncClient, channel: Channel[Event], timeout: float | None) -> None:
        self._client = client
        self._channel = channel
        self._timeout = timeout

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """The next event. Raises `Timeout` if none comes in time."""
        return await self._client._take(self._channel, self._timeout)  # pyright: ignore[reportPrivateUsage]

    def close(self) -> None:
        """Ends the stream after the events that have already arrived."""
        self._channel.finish()


class AsyncClient(AsyncCommands):
    """A tiller process, driven by asyncio.

    `async with AsyncClient.start(...) as tiller` starts and ends it. All methods belong to the event
    loop in which the client was started.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        tools: Tools | Iterable[Callable[..., object]] | None = None,
        on_dialog: OnDialog | None = None,
        on_notify: Callable[[Notice], object] | None = None,
        on_display: Callable[[Display], object] | None = None,
        timeout: float | None = None,
        start_timeout: float = START_SECONDS,
    ) -> None:
        """Makes a client for a transport; `await client` connects it. `start` is the usual way."""
        self._transport = transport
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._core = self._make_core()
        self._waiters: list[asyncio.Future[None]] = []
        self._first_tools = registry(tools)
        self._tools = Tools()
        self._tools_reply: Reply | None = None
        self._calls: dict[str, tuple[ToolContext, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._dialogs: dict[str, tuple[Dialog, asyncio.Task[None]]] = {}
        self._on_dialog = on_dialog
        self._on_notify = on_notify
        self._on_display = on_display
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: HelloData | None = None

    @classmethod
    def start(
        cls,
        *,
        command: str | Sequence[str] = "tiller",
        model: str | None = None,
        args: Sequence[str] = (),
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        tools: Tools | Iterable[Callable[..., object]] | None = None,
        on_dialog: OnDialog | None = None,
        on_notify: Callable[[Notice], object] | None = None,
        on_display: Callable[[Display], object] | None = None,
        timeout: float | None = None,
        start_timeout: float = START_SECONDS,
    ) -> AsyncClient:
        """A client that starts tiller when it is awaited or entered by `async with`.

        `command` is the program, `args` are further arguments, `cwd` is the working directory of the
        agent, and `env` replaces the environment, as in `subprocess`. `timeout` limits the wait for
        each response, in seconds.
        """
        return cls(
            stdio(command, model, args, cwd, env),
            tools=tools,
            on_dialog=on_dialog,
            on_notify=on_notify,
            on_display=on_display,
            timeout=timeout,
            start_timeout=start_timeout,
        )

    def __await__(self) -> Generator[Any, None, AsyncClient]:
        return self._connect().__await__()

    async def __aenter__(self) -> AsyncClient:
        return await self._connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _connect(self) -> AsyncClient:
        if self._loop is not None:
            return self
        self._loop = asyncio.get_running_loop()
        await self._open()
        finalizer = weakref.finalize(self, self._transport.request_close)
        # `StdioTransport` ends its process at the exit of the interpreter, with a wait.
        finalizer.atexit = False
        try:
            self._server = await self._greet(self._start_timeout)
            self._add_tools(self._first_tools)
            await self._tools_accepted()
        except BaseException:
            await self._give_up()
            raise
        return self

    # The parts of a start in which a session of a server differs

    def _make_core(self) -> Core:
        return Core()

    async def _open(self) -> None:
        self._transport.open(weakly(self._receive_in_thread), weakly(self._end_in_thread))

    async def _greet(self, timeout: float) -> HelloData:
        data: object = await self.request(HELLO, timeout=timeout)
        hello = read_as(HelloData, data, "hello")
        check_hello(hello)
        return hello

    async def _give_up(self) -> None:
        """The start has failed."""
        await self.close()

    async def close(self) -> None:
        """Ends tiller: closes its stdin, waits, terminates, kills. Returns when it has ended.

        A run in progress is aborted, and its events still arrive. Closing twice is not an error.
        """
        self._core.closing = True
        if self._loop is not None:
            self._transport.request_close()
            try:
                await self._wait(lambda: self._core.ended, CLOSE_SECONDS)
            except Timeout:
                log.error("tiller did not end within %s s", CLOSE_SECONDS)
        self._end(ClientClosed("the client is closed"))

    # What is known without asking

    @property
    def server(self) -> HelloData:
        """What tiller said about itself at the start: version, commands, events, limits."""
        if self._server is None:
            raise ClientClosed("the client has not been started: use `async with` or `await`")
        return self._server

    @property
    def last_seq(self) -> int:
        """The number of the newest record. `replay(since=...)` takes it."""
        return self._core.last_seq

    @property
    def epoch(self) -> str | None:
        """The name of this process's numbering. Numbers of another epoch mean nothing here."""
        return self._core.epoch

    @property
    def pid(self) -> int | None:
        """The process id of tiller."""
        return self._transport.pid if isinstance(self._transport, StdioTransport) else None

    @property
    def stderr_tail(self) -> str:
        """The last lines that tiller wrote to stderr."""
        return self._transport.stderr_tail()

    # Prompts

    def prompt(
        self,
        message: str,
        *,
        images: Sequence[Image] | None = None,
        client_message_id: str | None = None,
        when_busy: Literal["steer", "followUp"] | None = None,
    ) -> AsyncTurn:
        """Sends a user message at once. `await` the turn to learn whether tiller accepts it.

        While tiller is busy the message is refused, unless `when_busy` names a queue.
        """
        return self._turn(prompt_command("prompt", message, images, client_message_id, when_busy))

    def steer(
        self, message: str, *, images: Sequence[Image] | None = None, client_message_id: str | None = None
    ) -> AsyncTurn:
        """Queues a message that is sent after the tools of the current turn."""
        return self._turn(prompt_command("steer", message, images, client_message_id))

    def follow_up(
        self, message: str, *, images: Sequence[Image] | None = None, client_message_id: str | None = None
    ) -> AsyncTurn:
        """Queues a message that is sent when the run would otherwise end."""
        return self._turn(prompt_command("follow_up", message, images, client_message_id))

    def abort_and_prompt(
        self, message: str, *, images: Sequence[Image] | None = None, client_message_id: str | None = None
    ) -> AsyncTurn:
        """Stops the current run and starts a new one with this message."""
        return self._turn(prompt_command("abort_and_prompt", message, images, client_message_id))

    def _turn(self, command: Mapping[str, object]) -> AsyncTurn:
        self._check_started()
        state, line = self._core.turn(command)
        self._transport.send(line)
        return AsyncTurn(self, state)

    async def _accepted(self, state: TurnState) -> None:
        await self._tools_accepted()
        await self._wait(lambda: state.reply.done, self._timeout)
        state.reply.data()

    # Events

    def events(self, *, timeout: float | None = None) -> AsyncEventStream:
        """All events from now on. `timeout` limits the wait for each of them."""
        return AsyncEventStream(self, self._core.subscribe(), timeout)

    async def replay(
        self, since: int, *, epoch: str | None = None, timeout: float | None = None
    ) -> AsyncEventStream:
        """All events after number `since`: first those of the past, then the live ones.

        There is no gap and no duplicate. Raises `EventsLost` if tiller no longer has all of them.
        """
        channel = self._core.subscribe()
        channel.hold()
        steps = replay(channel, since, epoch)
        command = next(steps)
        while True:
            page = await self.request(command)
            try:
                command = steps.send(page)
            except StopIteration:
                return AsyncEventStream(self, channel, timeout)

    @staticmethod
    def seq_of(event: Event) -> int:
        """The number of an event, to continue from by `replay`."""
        return seq_of(event)

    # Tools

    @overload
    def tool(self, function: Function, /) -> Function: ...

    @overload
    def tool(
        self, /, *, name: str | None = None, description: str | None = None, timeout: float | None = None
    ) -> Callable[[Function], Function]: ...

    def tool(
        self,
        function: Function | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
    ) -> Function | Callable[[Function], Function]:
        """Offers a function to the model, as `@client.tool` or `@client.tool(name=...)`.

        An async function runs as a task, any other in a thread of its own. A decorator cannot wait:
        if tiller refuses the tool, the next `await client.prompt(...)` raises `CommandRefused`.
        """

        def register(function: Function) -> Function:
            self._add_tools([make_tool(function, name=name, description=description, timeout=timeout)])
            return function

        return register if function is None else register(function)

    async def remove_tool(self, name: str) -> None:
        """Withdraws a tool from the next request on."""
        self._tools.remove(name)
        await self.set_host_tools(self._tools.definitions())

    def _add_tools(self, tools: Iterable[Tool]) -> None:
        added = list(tools)
        for tool in added:
            self._tools.add(tool)
        if added:
            self._check_started()
            self._tools_reply, line = self._core.request(
                {"type": "set_host_tools", "tools": self._tools.definitions()}
            )
            self._transport.send(line)

    async def _tools_accepted(self) -> None:
        reply = self._tools_reply
        if reply is not None:
            await self._wait(lambda: reply.done, self._timeout)
            self._tools_reply = None
            reply.data()

    # Requests

    async def request(self, command: Mapping[str, object], *, timeout: float | None = None) -> Any:
        self._check_started()
        reply, line = self._core.request(command)
        self._transport.send(line)
        try:
            await self._wait(lambda: reply.done, self._timeout if timeout is None else timeout)
        finally:
            self._core.forget(reply)
        return reply.data()

    async def _ask(self, expected: type[T], command: Mapping[str, object]) -> T:
        return read_as(expected, await self.request(without_none(command)), command["type"])

    async def _ask_or_none(self, expected: type[T], command: Mapping[str, object]) -> T | None:
        data: object = await self.request(without_none(command))
        return None if data is None else read_as(expected, data, command["type"])

    async def _tell(self, command: Mapping[str, object]) -> None:
        await self.request(without_none(command))

    def _check_started(self) -> None:
        if self._loop is None:
            raise ClientClosed("the client has not been started: use `async with` or `await`")

    async def _wait(self, ready: Callable[[], bool], timeout: float | None) -> None:
        try:
            await asyncio.wait_for(self._until(ready), timeout)
        except asyncio.TimeoutError as error:
            raise Timeout(f"tiller did not get there within {timeout} s") from error

    async def _until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def _take(self, channel: Channel[T], timeout: float | None) -> T:
        # A loop over events that have arrived must not starve other tasks, and must not cost a
        # task per event either: `wait_for` is only used if there is nothing yet.
        if not channel.ready:
            await self._wait(lambda: channel.ready, timeout)
        try:
            return channel.take()
        except StopIteration:
            raise StopAsyncIteration from None

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # Records of tiller. The first two run in a thread of the transport, the others in the loop.

    def _receive_in_thread(self, records: list[dict[str, Any]]) -> None:
        self._call_in_loop(self._receive, records)

    def _end_in_thread(self, error: TillerError) -> None:
        self._call_in_loop(self._end, error)

    def _call_in_loop(self, function: Callable[[T], None], argument: T) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            # The loop is closed, so the client can no longer be used.
            self._transport.request_close()

    def _receive(self, records: list[dict[str, Any]]) -> None:
        for record in records:
            self._core.receive(record)
            self._handle(record)
        self._wake()

    def _handle(self, record: dict[str, Any]) -> None:
        """Does what a record asks the client for."""
        kind = record.get("type")
        if kind == "host_tool_call":
            self._start_tool(record)
        elif kind == "host_tool_cancel":
            self._cancel_tool(record["targetId"])
        elif kind == "extension_ui_request":
            self._show(read_request(record))
        elif kind == "extension_ui_closed":
            self._close_dialog(record["id"])

    def _end(self, error: TillerError) -> None:
        self._core.end(error)
        self._wake()
        for call_id in list(self._calls):
            self._cancel_tool(call_id)
        for dialog_id in list(self._dialogs):
            self._close_dialog(dialog_id)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        assert self._loop is not None
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _show(self, request: Dialog | Notice | Display) -> None:
        if isinstance(request, Dialog):
            self._ask_user(request)
            return
        callback: Any = self._on_notify if isinstance(request, Notice) else self._on_display
        if callback is None:
            return
        try:
            value = callback(request)
        except Exception:
            log.exception("a callback failed")
            return
        if inspect.isawaitable(value):
            self._spawn(_finish(value))

    def _ask_user(self, dialog: Dialog) -> None:
        self._dialogs[dialog.id] = (dialog, self._spawn(self._run_dialog(dialog)))

    def _close_dialog(self, dialog_id: str) -> None:
        if dialog_id in self._dialogs:
            dialog, task = self._dialogs.pop(dialog_id)
            dialog.closed.set()
            task.cancel()

    async def _run_dialog(self, dialog: Dialog) -> None:
        answer: Answer = None
        if self._on_dialog is not None:
            try:
                answer = cast("Answer", await call(self._on_dialog, dialog))
            except Exception:
                log.exception("on_dialog failed; the dialog counts as cancelled")
        if self._dialogs.pop(dialog.id, None) is not None:
            self._transport.send(encode(answer_line(dialog, answer)))

    def _start_tool(self, record: Mapping[str, Any]) -> None:
        call_id: str = record["id"]

        def update(result: Mapping[str, object]) -> None:
            self._transport.send(encode(update_line(call_id, result)))

        context = ToolContext(record["toolName"], record["toolCallId"], update)
        self._calls[call_id] = (context, self._spawn(self._run_tool(record, context)))

    def _cancel_tool(self, call_id: str) -> None:
        if call_id in self._calls:
            context, task = self._calls.pop(call_id)
            context.cancelled.set()
            task.cancel()

    async def _run_tool(self, record: Mapping[str, Any], context: ToolContext) -> None:
        call_id: str = record["id"]
        tool = self._tools.get(record["toolName"])
        try:
            if tool is None:
                raise LookupError(f"the tool {record['toolName']} is no longer available")
            value = await call(tool.function, **tool.arguments(record["arguments"], context))
            line = result_line(call_id, value)
        except Exception as error:
            log.debug("the tool %s failed", record["toolName"], exc_info=True)
            line = error_line(call_id, error)
        if self._calls.pop(call_id, None) is not None:
            self._transport.send(encode(line))


async def _finish(work: Awaitable[object]) -> None:
    try:
        await work
    except Exception:
        log.exception("a callback failed")


async def call(function: Callable[..., object], *positional: Any, **named: Any) -> object:
    """Calls a function without blocking the loop: an async one here, any other in a new thread.

    Not in the loop's executor: a function that does not stop would keep the loop from closing.
    """
    if inspect.iscoroutinefunction(function):
        return await cast("Awaitable[object]", function(*positional, **named))
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()

    def settle(value: object, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def run() -> None:
        value: object = None
        failure: Exception | None = None
        try:
            value = function(*positional, **named)
        except Exception as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:
            pass  # The loop is closed; the caller is gone.

    threading.Thread(target=run, daemon=True).start()
    value = await future
    return await cast("Awaitable[object]", value) if inspect.isawaitable(value) else value
