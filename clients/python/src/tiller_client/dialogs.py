"""What extensions ask the user and show to the user."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union

#: `on_dialog` returns a text for `select`, `input` and `editor`, a bool for `confirm`, and None if
#: the user has cancelled.
Answer = Union[str, bool, None]

QUESTIONS = ("select", "confirm", "input", "editor")


@dataclass(frozen=True)
class Dialog:
    """A question of an extension to the user."""

    id: str
    method: Literal["select", "confirm", "input", "editor"]
    title: str
    #: The question of a `confirm`.
    message: str = ""
    #: The choices of a `select`.
    options: tuple[str, ...] = ()
    #: A hint for an `input`.
    placeholder: str = ""
    #: The initial text of an `editor`.
    prefill: str = ""
    #: tiller cancels the question after this many milliseconds.
    timeout_ms: int | None = None
    #: Set when the question is no longer open, because another client of the session has answered it.
    closed: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)


@dataclass(frozen=True)
class Notice:
    """A message of an extension to the user."""

    message: str
    kind: Literal["info", "warning", "error"] = "info"


@dataclass(frozen=True)
class Display:
    """Something else that an extension shows: a status, a widget, a title, a text to edit."""

    method: Literal["setStatus", "setWidget", "setTitle", "set_editor_text"]
    #: The key of a status or widget.
    key: str | None
    #: The text, or the lines of a widget. None removes it.
    value: str | tuple[str, ...] | None


def read_request(record: Mapping[str, Any]) -> Dialog | Notice | Display:
    """An `extension_ui_request` in the form that callbacks get."""
    method = record["method"]
    if method in QUESTIONS:
        return Dialog(
            id=record["id"],
            method=method,
            title=record.get("title") or "",
            message=record.get("message") or "",
            options=tuple(record.get("options") or ()),
            placeholder=record.get("placeholder") or "",
            prefill=record.get("prefill") or "",
            timeout_ms=record.get("timeout"),
        )
    if method == "notify":
        return Notice(record.get("message") or "", record.get("notifyType") or "info")
    lines = record.get("widgetLines")
    text = record.get("statusText", record.get("title", record.get("text")))
    return Display(
        method=method,
        key=record.get("statusKey", record.get("widgetKey")),
        value=text if lines is None else tuple(lines),
    )


def answer_line(dialog: Dialog, answer: Answer) -> dict[str, object]:
    """The line that answers a dialog."""
    line: dict[str, object] = {"type": "extension_ui_response", "id": dialog.id}
    if answer is None:
        return {**line, "cancelled": True}
    if dialog.method == "confirm":
        return {**line, "confirmed": bool(answer)}
    return {**line, "value": str(answer)}
