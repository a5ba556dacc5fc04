"""Bytes to lines to records, and back. Only LF ends a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from .errors import ProtocolError


class LineSplitter:
    """Cuts a stream of bytes into lines. A long line costs no more than its length."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their LF."""
        first, *others = data.split(b"\n")
        self._parts.append(first)
        if not others:
            return []
        lines = [b"".join(self._parts), *others[:-1]]
        self._parts = [others[-1]]
        return lines

    def rest(self) -> list[bytes]:
        """The last line, if the stream ended without LF."""
        line = b"".join(self._parts)
        self._parts = []
        return [line] if line else []


def encode(command: Mapping[str, object]) -> bytes:
    """The line that sends a command."""
    try:
        text = json.dumps(command, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the command {command.get('type')!r} cannot be written as JSON: {error}") from error
    # An unpaired surrogate cannot be encoded; tiller would read it as U+FFFD in any case.
    return text.encode("utf-8", "replace") + b"\n"


def decode(line: bytes) -> dict[str, Any] | None:
    """The record of a line; nothing for a blank line."""
    if not line.strip():
        return None
    try:
        record: object = json.loads(line)
    except ValueError as error:
        raise ProtocolError(f"tiller wrote a line that is not JSON: {excerpt(line)} ({error})") from error
    if not isinstance(record, dict):
        raise ProtocolError(f"tiller wrote a line that is not a JSON object: {excerpt(line)}")
    return cast("dict[str, Any]", record)


def excerpt(line: bytes) -> str:
    text = line[:200].decode("utf-8", "replace")
    return repr(text + ("…" if len(line) > 200 else ""))
