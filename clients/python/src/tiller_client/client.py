"""The client for programs with threads."""

from __future__ import annotations

import logging
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from ._commands import Commands
from ._core import Channel, Core, TurnState, check_hello, read_as, replay, seq_of, without_none
from ._framing import encode
from ._start import HELLO, START_SECONDS, prompt_command, stdio, weakly
from ._transport import StdioTransport, Transport
from .dialogs import Answer, Dialog, Display, Notice, answer_line, read_request
from .errors import ClientClosed, CommandRefused, TillerError, Timeout
from .media import Image
from .results import Result
from .tools import (
    Function,
    Tool,
    ToolCancelled,
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
log = logging.getLogger("tiller_client")


class Turn:
    """A prompt and what becomes of it.

    An iterator over the events of the prompt. It ends with the `prompt_result`. An iteration that
    was left can be continued.
    """

    def __init__(self, client: Client, state: TurnState) -> None:
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

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return self._client._take(self._state.channel, None)  # pyright: ignore[reportPrivateUsage]

    def text_stream(self) -> Iterator[str]:
        """The pieces of the answers' text as they arrive."""
        for event in self:
            if event["type"] == "message_update":
                step = event["assistantMessageEvent"]
                if step["type"] == "text_delta":
                    yield step["delta"]

    def result(self, timeout: float | None = None) -> Result:
        """Waits for the end of the prompt. Raises `Timeout` after this many seconds."""
        state = self._state
        self._client._wait(lambda: state.phase == "over", timeout)  # pyright: ignore[reportPrivateUsage]
        if state.error is not None:
            raise state.error
        assert state.result is not None
        return state.result

    def abort(self) -> None:
        """Stops this prompt: takes it out of its queue, or aborts its run."""
        if self._state.phase == "queued":
            try:
                self._client.remove_queued(client_message_id=self.client_message_id)
                return
            except CommandRefused:
                pass  # It is being sent.
        if not self.done:
            self._client.abort()

    def steer(self, message: str, *, images: Sequence[Image] | None = None) -> Turn:
        """Sends a message that the model gets after the tools of the current turn.

        If the run has ended meanwhile, the message starts another one.
        """
        return self._client.prompt(message, images=images, when_busy="steer")

    def follow_up(self, message: str, *, images: Sequence[Image] | None = None) -> Turn:
        """Sends a message that the model gets when the run would otherwise end.

        If the run has ended meanwhile, the message starts another one.
        """
        return self._client.prompt(message, images=images, when_busy="followUp")


class EventStream:
    """All events from a point on. Ends when the client is closed."""

    def __init__(self, client: Client, channel: Channel[Event], timeout: float | None) -> None:
        self._client = client
        self._channel = channel
        self._timeout = timeout

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        """The next event. Raises `Timeout` if none comes in time."""
        return self._client._take(self._channel, self._timeout)  # pyright: ignore[reportPrivateUsage]

    def close(self) -> None:
        """Ends the stream after the events that have already arrived."""
        self._channel.finish()


class Client(Commands):
    """A tiller process, driven by threads.

    Any thread may call any method. `start` starts the process, `close` ends it, and `with` does both.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        tools: Tools | Iterable[Callable[..., object]] | None = None,
        on_dialog: Callable[[Dialog], Answer] | None = None,
        on_notify: Callable[[Notice], object] | None = None,
        on_display: Callable[[Display], object] | None = None,
        timeout: float | None = None,
        start_timeout: float = START_SECONDS,
    ) -> None:
        """Connects over a transport. `start` is the usual way to get a client."""
        self._transport = transport
        self._timeout = timeout
        self._core = self._make_core()
        self._changed = threading.Condition()
        self._tools = Tools()
        self._calls: dict[str, ToolContext] = {}
        self._dialogs: dict[str, Dialog] = {}
        self._on_dialog = on_dialog
        self._on_notify = on_notify
        self._on_display = on_display
        self._callbacks = _CallbackThread()
        first_tools = registry(tools)
        self._open(first_tools)
        self._finalizer = weakref.finalize(self, _abandon, transport, self._callbacks)
        # `StdioTransport` ends its process at the exit of the interpreter, with a wait.
        self._finalizer.atexit = False
        try:
            self._server = self._greet(start_timeout)
            self._add_tools(first_tools)
        except BaseException:
            self._give_up()
            raise

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
        on_dialog: Callable[[Dialog], Answer] | None = None,
        on_notify: Callable[[Notice], object] | None = None,
        on_display: Callable[[Display], object] | None = None,
        timeout: float | None = None,
        start_timeout: float = START_SECONDS,
    ) -> Client:
        """Starts tiller and returns a client for it.

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

    # The parts of a start in which a session of a server differs

    def _make_core(self) -> Core:
        return Core()

    def _open(self, first_tools: Tools) -> None:
        self._transport.open(weakly(self._receive), weakly(self._end))

    def _greet(self, timeout: float) -> HelloData:
        data: object = self.request(HELLO, timeout=timeout)
        hello = read_as(HelloData, data, "hello")
        check_hello(hello)
        return hello

    def _give_up(self) -> None:
        """The start has failed."""
        self.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends tiller: closes its stdin, waits, terminates, kills. Returns when it has ended.

        A run in progress is aborted, and its events still arrive. Closing twice is not an error.
        """
        with self._changed:
            self._core.closing = True
        self._finalizer.detach()
        self._transport.close()
        self._finish()

    def _finish(self) -> None:
        self._end(ClientClosed("the client is closed"))
        self._callbacks.stop()

    # What is known without asking

    @property
    def server(self) -> HelloData:
        """What tiller said about itself at the start: version, commands, events, limits."""
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
    ) -> Turn:
        """Sends a user message. Returns when tiller has accepted it; the answer follows as events.

        While tiller is busy the message is refused, unless `when_busy` names a queue.
        """
        return self._turn(prompt_command("prompt", message, images, client_message_id, when_busy))

    def steer(
        self, message: str, *, images: Sequence[Image] | None = None, client_message_id: str | None = None
    ) -> Turn:
        """Queues a message that is sent after the tools of the current turn."""
        return self._turn(prompt_command("steer", message, images, client_message_id))

    def follow_up(
        self, message: str, *, images: Sequence[Image] | None = None, client_message_id: str | None = None
    ) -> Turn:
        """Queues a message that is sent when the run would otherwise end."""
        return self._turn(prompt_command("follow_up", message, images, client_message_id))

    def abort_and_prompt(
        self, message: str, *, images: Sequence[Image] | None = None, client_message_id: str | None = None
    ) -> Turn:
        """Stops the current run and starts a new one with this message."""
        return self._turn(prompt_command("abort_and_prompt", message, images, client_message_id))

    def _turn(self, command: Mapping[str, object]) -> Turn:
        with self._changed:
            state, line = self._core.turn(command)
            self._transport.send(line)
        self._wait(lambda: state.reply.done, self._timeout)
        state.reply.data()
        return Turn(self, state)

    # Events

    def events(self, *, timeout: float | None = None) -> EventStream:
        """All events from now on. `timeout` limits the wait for each of them."""
        with self._changed:
            return EventStream(self, self._core.subscribe(), timeout)

    def replay(self, since: int, *, epoch: str | None = None, timeout: float | None = None) -> EventStream:
        """All events after number `since`: first those of the past, then the live ones.

        There is no gap and no duplicate. Raises `EventsLost` if tiller no longer has all of them.
        """
        with self._changed:
            channel = self._core.subscribe()
            channel.hold()
        steps = replay(channel, since, epoch)
        try:
            command = next(steps)
            while True:
                page = self.request(command)
                with self._changed:
                    command = steps.send(page)
        except StopIteration:
            return EventStream(self, channel, timeout)

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

        Each call runs in a thread of its own.
        """

        def register(function: Function) -> Function:
            self._add_tools([make_tool(function, name=name, description=description, timeout=timeout)])
            return function

        return register if function is None else register(function)

    def remove_tool(self, name: str) -> None:
        """Withdraws a tool from the next request on."""
        self._tools.remove(name)
        self.set_host_tools(self._tools.definitions())

    def _add_tools(self, tools: Iterable[Tool]) -> None:
        added = list(tools)
        for tool in added:
            self._tools.add(tool)
        try:
            if added:
                self.set_host_tools(self._tools.definitions())
        except CommandRefused:
            for tool in added:
                self._tools.remove(tool.name)
            raise

    # Requests

    def request(self, command: Mapping[str, object], *, timeout: float | None = None) -> Any:
        with self._changed:
            reply, line = self._core.request(command)
            self._transport.send(line)
        try:
            self._wait(lambda: reply.done, self._timeout if timeout is None else timeout)
        finally:
            with self._changed:
                self._core.forget(reply)
        return reply.data()

    def _ask(self, expected: type[T], command: Mapping[str, object]) -> T:
        return read_as(expected, self.request(without_none(command)), command["type"])

    def _ask_or_none(self, expected: type[T], command: Mapping[str, object]) -> T | None:
        data: object = self.request(without_none(command))
        return None if data is None else read_as(expected, data, command["type"])

    def _tell(self, command: Mapping[str, object]) -> None:
        self.request(without_none(command))

    def _wait(self, ready: Callable[[], bool], timeout: float | None) -> None:
        with self._changed:
            if not self._changed.wait_for(ready, timeout):
                raise Timeout(f"tiller did not get there within {timeout} s")

    def _take(self, channel: Channel[T], timeout: float | None) -> T:
        with self._changed:
            self._wait(lambda: channel.ready, timeout)
            return channel.take()

    # Records of tiller. These run in a thread of the transport, and must not wait.

    def _receive(self, records: list[dict[str, Any]]) -> None:
        with self._changed:
            for record in records:
                self._core.receive(record)
            self._changed.notify_all()
        for record in records:
            self._handle(record)

    def _handle(self, record: dict[str, Any]) -> None:
        """Does what a record asks the client for."""
        kind = record.get("type")
        if kind == "host_tool_call":
            context = ToolContext(
                record["toolName"], record["toolCallId"], _updater(self._transport, record["id"])
            )
            self._calls[record["id"]] = context
            _spawn(self._run_tool, record, context)
        elif kind == "host_tool_cancel":
            cancelled = self._calls.pop(record["targetId"], None)
            if cancelled is not None:
                cancelled.cancelled.set()
        elif kind == "extension_ui_request":
            self._show(read_request(record))
        elif kind == "extension_ui_closed":
            dialog = self._dialogs.pop(record["id"], None)
            if dialog is not None:
                dialog.closed.set()

    def _end(self, error: TillerError) -> None:
        with self._changed:
            self._core.end(error)
            self._changed.notify_all()
        for context in list(self._calls.values()):
            context.cancelled.set()
        for dialog in list(self._dialogs.values()):
            dialog.closed.set()

    def _show(self, request: Dialog | Notice | Display) -> None:
        if isinstance(request, Dialog):
            self._ask_user(request)
        elif isinstance(request, Notice):
            if self._on_notify is not None:
                self._callbacks.submit(self._on_notify, request)
        elif self._on_display is not None:
            self._callbacks.submit(self._on_display, request)

    def _ask_user(self, dialog: Dialog) -> None:
        if self._on_dialog is None:
            self._transport.send(encode(answer_line(dialog, None)))
        else:
            self._dialogs[dialog.id] = dialog
            _spawn(self._run_dialog, self._on_dialog, dialog)

    def _run_dialog(self, on_dialog: Callable[[Dialog], Answer], dialog: Dialog) -> None:
        answer: Answer = None
        try:
            answer = on_dialog(dialog)
        except Exception:
            log.exception("on_dialog failed; the dialog counts as cancelled")
        if self._dialogs.pop(dialog.id, None) is not None:
            self._transport.send(encode(answer_line(dialog, answer)))

    def _run_tool(self, call: Mapping[str, Any], context: ToolContext) -> None:
        call_id: str = call["id"]
        tool = self._tools.get(call["toolName"])
        try:
            if tool is None:
                raise LookupError(f"the tool {call['toolName']} is no longer available")
            value = tool.function(**tool.arguments(call["arguments"], context))
            line = result_line(call_id, value)
        except ToolCancelled as error:
            line = error_line(call_id, error)
        except Exception as error:
            log.debug("the tool %s failed", call["toolName"], exc_info=True)
            line = error_line(call_id, error)
        if self._calls.pop(call_id, None) is not None:
            self._transport.send(encode(line))


class _CallbackThread:
    """Calls functions in order, in one thread that is started when it is first needed."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._started = False

    def submit(self, callback: Callable[[T], object], argument: T) -> None:
        if not self._started:
            self._started = True
            threading.Thread(target=_run_callbacks, args=(self._queue,), daemon=True).start()
        self._queue.put(lambda: callback(argument))

    def stop(self) -> None:
        self._queue.put(None)


def _run_callbacks(callbacks: queue.SimpleQueue[Callable[[], object] | None]) -> None:
    while (callback := callbacks.get()) is not None:
        try:
            callback()
        except Exception:
            log.exception("a callback failed")
        # Holds nothing of the client while it waits.
        del callback


def _abandon(transport: Transport, callbacks: _CallbackThread) -> None:
    """The client was garbage collected. Must not block: this may run in any thread."""
    transport.request_close()
    callbacks.stop()


def _updater(transport: Transport, call_id: str) -> Callable[[Mapping[str, object]], None]:
    return lambda result: transport.send(encode(update_line(call_id, result)))


def _spawn(function: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()
