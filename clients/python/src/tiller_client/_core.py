"""Requests, turns and event streams, without any input or output.

A client passes every record to `Core.receive` and asks the objects of this module what has become
of its requests. It decides only how to wait: on a lock, or on an event loop. Nothing here is
thread-safe; a client with threads holds its lock.
"""

from __future__ import annotations

import uuid
import weakref
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, Literal, TypeVar, cast

from ._framing import encode
from .errors import ClientClosed, CommandRefused, EventsLost, ProtocolError, TillerError
from .results import Result, read_result
from .types import Event, EventsData

T = TypeVar("T")

#: What the client asks for with `hello` and cannot do without.
NEEDED = ("promptResults", "sequence")


class Reply:
    """The response to one request: pending, then data or an error."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.done = False
        #: Called with the data before the next record is handled.
        self.on_data: Callable[[object], None] | None = None
        self._data: object = None
        self._error: TillerError | None = None

    def settle(self, record: Mapping[str, Any]) -> None:
        self.done = True
        if record.get("success") is True:
            self._data = record.get("data")
            if self.on_data is not None:
                self.on_data(self._data)
        else:
            self._error = refusal(self.command, record)

    def fail(self, error: TillerError) -> None:
        if not self.done:
            self.done = True
            self._error = error

    @property
    def error(self) -> TillerError | None:
        return self._error

    def data(self) -> object:
        """The data of the response. Raises the error if there is one."""
        if self._error is not None:
            raise self._error
        return self._data


def refusal(command: str, record: Mapping[str, Any]) -> CommandRefused:
    """The error of a response that refuses its command."""
    data: object = record.get("data")
    details = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    handle = details.get("sessionId")
    owner = details.get("owner")
    return CommandRefused(
        command,
        str(record.get("error", "refused without a reason")),
        code=record.get("code"),
        handle=None if handle is None else str(handle),
        owner=cast("dict[str, Any]", owner) if isinstance(owner, dict) else None,
    )


class Channel(Generic[T]):
    """Items for one consumer, and their end."""

    def __init__(self, limit: int | None = None) -> None:
        #: With more items than this the channel ends with `EventsLost`.
        self.limit = limit
        self._items: deque[T] = deque()
        self._finished = False
        self._held = False
        self._error: TillerError | None = None

    @property
    def ready(self) -> bool:
        """Whether `take` returns or raises something."""
        return not self._held and (bool(self._items) or self._finished)

    def push(self, item: T) -> None:
        if self.limit is not None and len(self._items) >= self.limit:
            self.finish(EventsLost(f"more than {self.limit} events have come before `events` was called"))
        if not self._finished:
            self._items.append(item)

    def finish(self, error: TillerError | None = None) -> None:
        """Nothing follows. Items that are already there can still be taken."""
        if not self._finished:
            self._finished = True
            self._error = error

    def take(self) -> T:
        """The next item. Raises `StopIteration` at the end, and the error if there is one."""
        if self._items:
            return self._items.popleft()
        if self._error is not None:
            raise self._error
        raise StopIteration

    def hold(self) -> None:
        """Keeps items back until `release`."""
        self._held = True

    def release(self, items: list[T]) -> None:
        """Replaces the items that were kept back."""
        self._items = deque(items)
        self._held = False

    def held_items(self) -> list[T]:
        return list(self._items)


Phase = Literal["sent", "queued", "running", "over"]


class TurnState:
    """One prompt from its command to its `prompt_result`.

    A prompt that starts a run gets all events from then on. A queued one gets events from its own
    user message on, which tiller marks with the `clientMessageId`.
    """

    def __init__(self, request_id: str, client_message_id: str, reply: Reply) -> None:
        self.request_id = request_id
        self.client_message_id = client_message_id
        self.reply = reply
        self.phase: Phase = "sent"
        self.channel: Channel[Event] = Channel()
        self.result: Result | None = None
        self._text: list[str] = []

    @property
    def text(self) -> str:
        """The text of the newest answer, as far as it has arrived."""
        if len(self._text) > 1:
            self._text = ["".join(self._text)]
        return self._text[0] if self._text else ""

    @property
    def error(self) -> TillerError | None:
        """Why there is no result and will be none."""
        return self._error if self.phase == "over" and self.result is None else None

    _error: TillerError | None = None

    def accept(self) -> None:
        """The response has come."""
        if self.reply.error is not None:
            self.fail(self.reply.error)
            return
        data = self.reply.data()
        disposition = cast("dict[str, object]", data).get("disposition") if isinstance(data, dict) else None
        # `abort_and_prompt` answers without a disposition: its run starts.
        self.phase = "queued" if disposition == "queued" else "running"

    def receive(self, event: Event) -> None:
        if self.phase == "queued" and is_start_of(event, self.client_message_id):
            self.phase = "running"
        if event["type"] == "prompt_result":
            if event.get("id") == self.request_id:
                self.channel.push(event)
                self.result = read_result(event, self.text)
                self.phase = "over"
                self.channel.finish()
            elif self.phase == "running":
                self.channel.push(event)
        elif self.phase == "running":
            self._read_text(event)
            self.channel.push(event)

    def fail(self, error: TillerError) -> None:
        if self.phase != "over":
            self.phase = "over"
            self._error = error
            self.channel.finish(error)

    def _read_text(self, event: Event) -> None:
        if event["type"] == "message_update":
            step = event["assistantMessageEvent"]
            if step["type"] == "text_delta":
                self._text.append(step["delta"])
        elif event["type"] == "message_start" or event["type"] == "message_end":
            message = event["message"]
            if message["role"] == "assistant":
                self._text = [block["text"] for block in message["content"] if block["type"] == "text"]


def is_start_of(event: Event, client_message_id: str) -> bool:
    return event["type"] == "message_start" and event.get("clientMessageId") == client_message_id


class Core:
    """The request table, the turns and the streams of one connection, or of one session of it."""

    def __init__(self, id_prefix: str = "") -> None:
        """The ids of requests begin with the prefix."""
        self._id_prefix = id_prefix
        self._requests = 0
        self._replies: dict[str, Reply] = {}
        self._turns: dict[str, TurnState] = {}
        # Weak: a stream that the caller has dropped collects nothing more.
        self._streams: weakref.WeakSet[Channel[Event]] = weakref.WeakSet()
        self._end: TillerError | None = None
        self.closing = False
        self.last_seq = 0
        self.epoch: str | None = None

    @property
    def ended(self) -> bool:
        return self._end is not None

    def request(self, command: Mapping[str, object]) -> tuple[Reply, bytes]:
        """A new request and the line to send."""
        reply, _, line = self._request(command)
        return reply, line

    def _request(self, command: Mapping[str, object]) -> tuple[Reply, str, bytes]:
        if self._end is not None:
            raise self._end
        self._requests += 1
        request_id = f"{self._id_prefix}{self._requests}"
        line = encode({"id": request_id, **command})
        reply = Reply(str(command.get("type")))
        self._replies[request_id] = reply
        return reply, request_id, line

    def forget(self, reply: Reply) -> None:
        """The caller no longer waits for this reply."""
        self._replies = {key: value for key, value in self._replies.items() if value is not reply}

    def turn(self, command: Mapping[str, object]) -> tuple[TurnState, bytes]:
        """A new prompt and the line to send. The command has a `clientMessageId` in any case."""
        client_message_id = str(command.get("clientMessageId") or uuid.uuid4())
        reply, request_id, line = self._request({**command, "clientMessageId": client_message_id})
        state = TurnState(request_id, client_message_id, reply)
        self._turns[request_id] = state
        return state, line

    def subscribe(self, limit: int | None = None) -> Channel[Event]:
        """A channel with all events from now on."""
        channel: Channel[Event] = Channel(limit)
        if self._end is not None:
            channel.finish(None if self.closing else self._end)
        else:
            self._streams.add(channel)
        return channel

    def receive(self, record: dict[str, Any]) -> None:
        """Routes one record."""
        seq = record.get("seq")
        if isinstance(seq, int):
            self.last_seq = seq
            self.epoch = record.get("epoch", self.epoch)
        if record.get("type") == "response":
            self._receive_response(record)
            return
        event = cast("Event", record)
        for key, state in list(self._turns.items()):
            state.receive(event)
            if state.phase == "over":
                del self._turns[key]
        for stream in list(self._streams):
            stream.push(event)

    def _receive_response(self, record: dict[str, Any]) -> None:
        request_id = record.get("id")
        reply = self._replies.pop(request_id, None) if isinstance(request_id, str) else None
        if reply is None:
            return  # The caller gave up, or the line needs no response and was refused.
        reply.settle(record)
        state = self._turns.get(cast("str", request_id))
        if state is not None:
            state.accept()
            if state.phase == "over":
                del self._turns[state.request_id]

    def end(self, error: TillerError) -> None:
        """Nothing more will be received: everything pending fails."""
        if self._end is not None:
            return
        self.closing = self.closing or isinstance(error, ClientClosed)
        self._end = ClientClosed("the client is closed") if self.closing else error
        for reply in self._replies.values():
            reply.fail(self._end)
        for state in self._turns.values():
            state.fail(self._end)
        for stream in list(self._streams):
            stream.finish(None if self.closing else self._end)
        self._replies.clear()
        self._turns.clear()


def read_as(expected: type[T], data: object, command: object) -> T:
    """The data of a response, checked as far as its outermost type."""
    # A `TypedDict` is a dict at run time.
    if not isinstance(data, dict):
        raise ProtocolError(f"the response to {command!r} should be {expected.__name__}, but is {data!r}")
    return cast("T", data)


def without_none(command: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in command.items() if value is not None}


def check_hello(data: Mapping[str, object]) -> None:
    """The server must have granted what `hello` asked for."""
    missing = [name for name in NEEDED if not data.get(name)]
    if missing:
        version = data.get("version", "of unknown version")
        raise ProtocolError(
            f"this client needs a newer tiller: {data.get('server')} {version} has no {' and no '.join(missing)}"
        )


def replay(
    channel: Channel[Event], since: int, epoch: str | None
) -> Generator[dict[str, object], EventsData, None]:
    """Fills a held channel: first the events after `since`, then the live ones it has kept back.

    A generator of requests that is sent their responses, so that both clients can run it.
    """
    past: list[Event] = []
    position = since
    while True:
        page = yield without_none({"type": "get_events", "since": position, "epoch": epoch})
        if page["truncated"]:
            raise EventsLost(f"tiller no longer has all events after {since}")
        events = cast("list[dict[str, Any]]", page["events"])
        past += [cast("Event", event) for event in events if event.get("type") != "response"]
        position = max([position, *(int(event["seq"]) for event in events)])
        if not page["more"] or not events:
            break
    live = [event for event in channel.held_items() if seq_of(event) > position]
    channel.release(past + live)


def seq_of(event: Event) -> int:
    """The number of an event, counted from 1 in each process."""
    return int(cast("dict[str, Any]", event).get("seq", 0))
