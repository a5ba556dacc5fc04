"""What both clients need to start tiller and to send it prompts."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ._core import without_none
from ._transport import StdioTransport
from .media import Image, image_blocks

T = TypeVar("T")

#: How long tiller may take to answer `hello`.
START_SECONDS = 30.0
#: Longer than a transport takes to end its process.
CLOSE_SECONDS = 30.0

HELLO: Mapping[str, object] = {
    "type": "hello",
    "client": "tiller-client (Python)",
    "promptResults": True,
    "sequence": True,
}

#: The same for all sessions of a server.
SERVER_HELLO: Mapping[str, object] = {**HELLO, "wire": "pi-delta"}


def stdio(
    command: str | Sequence[str],
    model: str | None,
    args: Sequence[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
) -> StdioTransport:
    """The process that `start` starts."""
    program = [command] if isinstance(command, str) else list(command)
    line = [*program, "--mode", "rpc", "--wire", "pi-delta"]
    if model is not None:
        line += ["--model", model]
    return StdioTransport([*line, *args], cwd=cwd, env=env)


def prompt_command(
    name: str,
    message: str,
    images: Sequence[Image] | None,
    client_message_id: str | None,
    when_busy: str | None = None,
) -> dict[str, object]:
    """A command that sends a user message."""
    return without_none(
        {
            "type": name,
            "message": message,
            "images": image_blocks(images),
            "streamingBehavior": when_busy,
            "clientMessageId": client_message_id,
        }
    )


def weakly(method: Callable[[T], None]) -> Callable[[T], None]:
    """Calls a bound method without keeping its object alive."""
    reference: weakref.WeakMethod[Any] = weakref.WeakMethod(method)

    def call(argument: T) -> None:
        alive = reference()
        if alive is not None:
            alive(argument)

    return call
