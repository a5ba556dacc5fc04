"""Where a server of sessions listens, and the token that it wants."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from .errors import ConnectFailed


@dataclass(frozen=True)
class UnixAddress:
    """`unix:PATH`."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True)
class WebSocketAddress:
    """`ws://HOST:PORT`."""

    host: str
    port: int
    #: The host and the port, as in the header `Host`.
    authority: str
    path: str

    def __str__(self) -> str:
        return f"ws://{self.authority}{self.path if self.path != '/' else ''}"


Address = UnixAddress | WebSocketAddress


def agent_dir() -> str:
    """The folder in which tiller keeps settings, keys and sessions."""
    chosen = os.environ.get("PI_CODING_AGENT_DIR")
    if chosen:
        return os.path.expanduser(chosen) if chosen.startswith("~/") else chosen
    return os.path.join(os.path.expanduser("~"), ".pi", "agent")


def parse_address(address: str | None) -> Address:
    """The default is the socket in the agent folder."""
    if address is None:
        return UnixAddress(os.path.join(agent_dir(), "tiller.sock"))
    if address.startswith("unix:") and len(address) > len("unix:"):
        return UnixAddress(address[len("unix:") :])
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme != "ws" or not host or parts.query or parts.fragment or parts.username is not None:
        raise ConnectFailed(f"{address!r} is not an address: use unix:PATH or ws://HOST:PORT")
    return WebSocketAddress(host, 80 if port is None else port, parts.netloc, parts.path or "/")


def read_token(token: str | None, token_file: str | os.PathLike[str] | None) -> str:
    """The token for a WebSocket: the given one, or that of a file."""
    if token is not None:
        return token
    path = os.path.join(agent_dir(), "serve-token") if token_file is None else os.fspath(token_file)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConnectFailed(f"cannot read the token of the server: {error}") from error
