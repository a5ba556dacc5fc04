"""How a prompt ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .errors import RunFailed
from .types import PromptResult, Usage

#: `done`: the model has answered. `error`: the last answer failed. `aborted`: the client, a session
#: change or the end of tiller stopped it. `limit`: a limit of `set_limits` stopped it. `handled`: an
#: extension took care of it, and no run followed. `dropped`: it left its queue without being sent.
Status = Literal["done", "error", "aborted", "handled", "dropped", "limit"]


@dataclass(frozen=True)
class Result:
    """How a prompt ended, and what it cost."""

    status: Status
    #: Which limit stopped it, or why it was aborted or dropped.
    reason: str | None
    #: The text of the last answer.
    text: str
    #: The error of the last answer, with status `error` only.
    error: str | None
    #: The tokens of all answers.
    usage: Usage
    #: Dollars.
    cost: float
    runs: int
    turns: int
    messages: int
    duration_ms: int
    #: The record as tiller wrote it.
    record: PromptResult

    @property
    def ok(self) -> bool:
        """Whether the prompt was answered, or handled by an extension."""
        return self.status in ("done", "handled")

    def check(self) -> Result:
        """Returns this result, or raises `RunFailed` if the prompt did not end well."""
        if not self.ok:
            raise RunFailed(self)
        return self


def read_result(record: PromptResult, text: str) -> Result:
    return Result(
        status=record["status"],
        reason=record.get("reason"),
        text=text,
        error=record.get("error"),
        usage=record["usage"],
        cost=record["cost"],
        runs=record["runs"],
        turns=record["turns"],
        messages=record["messages"],
        duration_ms=record["durationMs"],
        record=record,
    )
