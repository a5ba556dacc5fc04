"""Tools that the host runs: Python functions that the model can call.

`Tools` is a registry. It reads a function's signature and docstring, and turns what the function
returns or raises into the lines of the protocol. Running the function is up to the client.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from ._schema import Schema, description_of, parameters_of
from .media import Image

Function = TypeVar("Function", bound=Callable[..., object])


class ToolCancelled(Exception):
    """Raised by `ToolContext.raise_if_cancelled`."""


class ToolContext:
    """One call of a tool. A function gets it by a parameter of this type."""

    def __init__(self, tool_name: str, call_id: str, send_update: Callable[[Mapping[str, object]], None]) -> None:
        #: The name of the tool.
        self.tool_name = tool_name
        #: The model's id for the call, `toolCallId` in events.
        self.call_id = call_id
        #: Set when tiller no longer waits for the result, for example after an abort.
        self.cancelled = threading.Event()
        self._send_update = send_update

    def update(self, progress: str | ToolResult) -> None:
        """Shows intermediate output. Each update replaces the one before."""
        if not self.cancelled.is_set():
            self._send_update(result_of(progress).wire())

    def raise_if_cancelled(self) -> None:
        """Ends the function with `ToolCancelled` if the call was cancelled."""
        if self.cancelled.is_set():
            raise ToolCancelled


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool, for functions that return more than text."""

    text: str = ""
    images: Sequence[Image] = ()
    #: For the client and the session file; the model never sees it.
    details: object = None
    is_error: bool = False

    def wire(self) -> dict[str, object]:
        content: list[dict[str, str]] = [image.block() for image in self.images]
        if self.text or not content:
            content.insert(0, {"type": "text", "text": self.text})
        return {"content": content} if self.details is None else {"content": content, "details": self.details}


@dataclass(frozen=True)
class Tool:
    """A function with everything that the model is told about it."""

    function: Callable[..., object]
    name: str
    description: str
    parameters: Schema
    context_parameter: str | None = None
    timeout_ms: int | None = None

    def definition(self) -> dict[str, object]:
        """The tool as `set_host_tools` takes it."""
        wire: dict[str, object] = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        if self.timeout_ms is not None:
            wire["timeoutMs"] = self.timeout_ms
        return wire

    def arguments(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """The keyword arguments of a call."""
        if self.context_parameter is None:
            return dict(arguments)
        return {**arguments, self.context_parameter: context}


@dataclass
class Tools:
    """A registry of tools. Pass it to `start`, or use the registry of a client by `client.tool`."""

    _tools: dict[str, Tool] = field(default_factory=dict[str, Tool])

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
        """Registers a function, as `@tools.tool` or `@tools.tool(name=..., timeout=...)`.

        Without a `description` the model gets the docstring. After `timeout` seconds tiller cancels
        the call.
        """

        def register(function: Function) -> Function:
            self.add(make_tool(function, name=name, description=description, timeout=timeout))
            return function

        return register if function is None else register(function)

    def add(self, tool: Tool) -> None:
        """Adds a tool, in place of one with the same name."""
        self._tools[tool.name] = tool

    def remove(self, name: str) -> None:
        """Removes a tool. It is not an error if there is none."""
        self._tools.pop(name, None)

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(list(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)

    def definitions(self) -> list[dict[str, object]]:
        return [tool.definition() for tool in self]


def make_tool(
    function: Callable[..., object],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
) -> Tool:
    """A tool from a function with typed parameters. Raises `TypeError` if a type has no schema."""
    parameters, context = parameters_of(function, ToolContext)
    return Tool(
        function=function,
        name=name or function.__name__,
        description=description or description_of(function),
        parameters=parameters,
        context_parameter=context,
        timeout_ms=None if timeout is None else max(1, round(timeout * 1000)),
    )


def registry(tools: Tools | Iterable[Callable[..., object]] | None) -> Tools:
    """The registry that the argument `tools` of `start` stands for."""
    if isinstance(tools, Tools):
        return tools
    made = Tools()
    for function in tools or ():
        made.add(make_tool(function))
    return made


def result_of(value: object) -> ToolResult:
    """What the return value of a function says to the model."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, str):
        return ToolResult(value)
    if isinstance(value, Image):
        return ToolResult(images=[value])
    if value is None:
        return ToolResult("done")
    return ToolResult(json.dumps(value, ensure_ascii=False))


def result_line(call_id: str, value: object) -> dict[str, object]:
    """The line that ends a call with the value a function has returned."""
    try:
        result = result_of(value)
    except (TypeError, ValueError) as error:
        return error_line(call_id, error)
    line: dict[str, object] = {"type": "host_tool_result", "id": call_id, "result": result.wire()}
    return {**line, "isError": True} if result.is_error else line


def error_line(call_id: str, error: BaseException) -> dict[str, object]:
    """The line that ends a call with the exception a function has raised."""
    message = str(error) or type(error).__name__
    result = {"content": [{"type": "text", "text": message}]}
    return {"type": "host_tool_result", "id": call_id, "result": result, "isError": True}


def update_line(call_id: str, result: Mapping[str, object]) -> dict[str, object]:
    return {"type": "host_tool_update", "id": call_id, "partialResult": result}
