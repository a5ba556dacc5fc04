"""The clients for asyncio. They have the same methods as `Client`, `Server` and `Session`."""

from ._async_client import AsyncClient, AsyncEventStream, AsyncTurn, OnDialog
from ._async_server import AsyncServer, AsyncSession

Server = AsyncServer
Session = AsyncSession

__all__ = [
    "AsyncClient",
    "AsyncEventStream",
    "AsyncServer",
    "AsyncSession",
    "AsyncTurn",
    "OnDialog",
    "Server",
    "Session",
]
