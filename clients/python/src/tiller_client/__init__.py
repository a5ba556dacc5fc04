"""Drives tiller, a coding agent, from Python.

    from tiller_client import Client

    with Client.start(model="tiller/demo") as tiller:
        print(tiller.prompt("What is in this folder?").result().text)

`Client` is for programs with threads, `AsyncClient` for asyncio. `Server` and `AsyncServer` connect
to a server of many sessions, `tiller serve`.
"""

from .aio import AsyncClient, AsyncEventStream, AsyncServer, AsyncSession, AsyncTurn
from .client import Client, EventStream, Turn
from .dialogs import Answer, Dialog, Display, Notice
from .errors import (
    ClientClosed,
    CommandRefused,
    ConnectFailed,
    ConnectionLost,
    EventsLost,
    ProtocolError,
    RunFailed,
    ServerExited,
    ServerNotFound,
    SessionClosed,
    SessionDetached,
    TillerError,
    Timeout,
)
from .media import Image
from .results import Result, Status
from .server import Server, Session
from .tools import Tool, ToolCancelled, ToolContext, ToolResult, Tools
from .types import Event

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncEventStream",
    "AsyncServer",
    "AsyncSession",
    "AsyncTurn",
    "Client",
    "ClientClosed",
    "CommandRefused",
    "ConnectFailed",
    "ConnectionLost",
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
    "Server",
    "ServerExited",
    "ServerNotFound",
    "Session",
    "SessionClosed",
    "SessionDetached",
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
