"""Drives tiller, a coding agent, from Python.

    from tiller_client import Client

    with Client.start(model="tiller/demo") as tiller:
        print(tiller.prompt("What is in this folder?").result().text)

`Client` is for programs with threads, `AsyncClient` for asyncio.
"""

from .aio import AsyncClient, AsyncEventStream, AsyncTurn
from .client import Client, EventStream, Turn
from .dialogs import Answer, Dialog, Display, Notice
from .errors import (
    ClientClosed,
    CommandRefused,
    EventsLost,
    ProtocolError,
    RunFailed,
    ServerExited,
    ServerNotFound,
    TillerError,
    Timeout,
)
from .media import Image
from .results import Result, Status
from .tools import Tool, ToolCancelled, ToolContext, ToolResult, Tools
from .types import Event

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncEventStream",
    "AsyncTurn",
    "Client",
    "ClientClosed",
    "CommandRefused",
    "Dialog",
    "Display",
    "Event",
    "EventStream",
    "EventsLost",
    "Image",
    "Notice",
    "ProtocolError",
    "Result",
    "RunFailed",
    "ServerExited",
    "ServerNotFound",
    "Status",
    "TillerError",
    "Timeout",
    "Tool",
    "ToolCancelled",
    "ToolContext",
    "ToolResult",
    "Tools",
    "Turn",
]
