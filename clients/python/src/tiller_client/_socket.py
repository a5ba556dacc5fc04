"""The connection to a server of sessions: lines over a Unix socket or a WebSocket."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from typing import Protocol

from ._address import Address, UnixAddress, WebSocketAddress
from ._framing import LineSplitter
from ._transport import Ended, Receive, deliver
from ._websocket import (
    BINARY,
    BROKEN,
    CLOSE,
    NORMAL,
    PING,
    PONG,
    TEXT,
    FrameDecoder,
    Handshake,
    close_frame,
    encode_frame,
)
from .errors import ConnectFailed, ConnectionLost, ProtocolError, TillerError

#: How long the server may take to end a connection that the client has ended.
CLOSE_SECONDS = 5.0
#: A server whose response to the handshake is longer does not speak HTTP.
MAX_HEAD_BYTES = 64 * 1024


class Framing(Protocol):
    """How lines are packed on a socket."""

    def pack(self, line: bytes) -> bytes:
        """The bytes for a line that ends with LF."""
        ...

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete. Raises `ProtocolError` if the bytes make no sense."""
        ...

    def closing(self, broken: bool) -> bytes:
        """The last bytes of the client."""
        ...


class LineFraming:
    """Lines as they are, on a Unix socket."""

    def __init__(self) -> None:
        self._splitter = LineSplitter()

    def pack(self, line: bytes) -> bytes:
        return line

    def feed(self, data: bytes) -> list[bytes]:
        return self._splitter.feed(data)

    def closing(self, broken: bool) -> bytes:
        return b""


class WebSocketFraming:
    """One text message for each line. Answers pings by itself."""

    def __init__(self, reply: Callable[[bytes], None], on_close: Callable[[], None]) -> None:
        self._decoder = FrameDecoder()
        self._reply = reply
        self._on_close = on_close

    def pack(self, line: bytes) -> bytes:
        return encode_frame(TEXT, line.rstrip(b"\n"))

    def feed(self, data: bytes) -> list[bytes]:
        lines: list[bytes] = []
        for frame in self._decoder.feed(data):
            if frame.opcode == TEXT:
                lines.append(frame.payload)
            elif frame.opcode == PING:
                self._reply(encode_frame(PONG, frame.payload))
            elif frame.opcode == CLOSE:
                self._on_close()  # The server waits for the same from the client.
                break
            elif frame.opcode == BINARY:
                raise ProtocolError("the server has sent a binary message")
        return lines

    def closing(self, broken: bool) -> bytes:
        return close_frame(BROKEN if broken else NORMAL)


class SocketTransport:
    """A connection to a server of sessions.

    Three daemon threads: one writes, one reads, and one ends the connection: it lets the writer
    finish, waits for the server, and closes the socket.
    """

    def __init__(self, address: Address, token: str | None, connect_seconds: float | None) -> None:
        self._address = address
        self._token = token
        self._connect_seconds = connect_seconds
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._end: queue.SimpleQueue[TillerError | None] = queue.SimpleQueue()
        self._framing: Framing = LineFraming()
        self._threads: dict[str, threading.Thread] = {}
        self._is_broken = False
        self._receive: Receive = lambda records: None
        self._ended: Ended = lambda error: None

    def open(self, receive: Receive, ended: Ended) -> None:
        """Connects. Raises `ConnectFailed` if that is impossible."""
        self._receive = receive
        self._ended = ended
        try:
            connection, first = self._connect()
        except OSError as error:
            raise ConnectFailed(f"cannot connect to {self._address}: {error}") from error
        for name, target, arguments in (
            ("write", self._write, (connection,)),
            ("read", self._read, (connection, first)),
            ("end", self._supervise, (connection,)),
        ):
            thread = threading.Thread(target=target, args=arguments, name=f"tiller-socket-{name}", daemon=True)
            self._threads[name] = thread
        for thread in self._threads.values():
            thread.start()

    def send(self, line: bytes) -> None:
        self._outbox.put(self._framing.pack(line))

    def request_close(self) -> None:
        self._end.put(None)

    def close(self) -> None:
        self.request_close()
        end = self._threads.get("end")
        if end is not None and end is not threading.current_thread():
            end.join(4 * CLOSE_SECONDS)

    def stderr_tail(self) -> str:
        return ""

    def _connect(self) -> tuple[socket.socket, bytes]:
        """The socket, and the first bytes that follow a handshake."""
        address = self._address
        if isinstance(address, UnixAddress):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.settimeout(self._connect_seconds)
                connection.connect(address.path)
                connection.settimeout(None)
                return connection, b""
            except BaseException:
                connection.close()
                raise
        connection = socket.create_connection((address.host, address.port), self._connect_seconds)
        try:
            first = self._shake_hands(connection, address)
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            connection.close()
            raise
        self._framing = WebSocketFraming(self._outbox.put, self.request_close)
        return connection, first

    def _shake_hands(self, connection: socket.socket, address: WebSocketAddress) -> bytes:
        handshake = Handshake(address.authority, address.path, self._token)
        connection.sendall(handshake.request)
        received = bytearray()
        while b"\r\n\r\n" not in received:
            data = connection.recv(1 << 12)
            received += data
            if not data or len(received) > MAX_HEAD_BYTES:
                raise ConnectFailed(f"{address} does not answer as an HTTP server")
        head, _, rest = bytes(received).partition(b"\r\n\r\n")
        try:
            handshake.check(head)
        except ConnectFailed as error:
            raise ConnectFailed(f"cannot connect to {address}: {error}", error.status) from None
        return rest

    def _write(self, connection: socket.socket) -> None:
        try:
            while (data := self._outbox.get()) is not None:
                connection.sendall(data)
            connection.sendall(self._framing.closing(self._is_broken))
            if isinstance(self._address, UnixAddress):
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            self.request_close()  # The server reads no more.

    def _read(self, connection: socket.socket, first: bytes) -> None:
        broken = self._feed(first)
        try:
            while data := connection.recv(1 << 16):
                # After an error the rest is still read, so that the server can end.
                broken = broken or self._feed(data)
        except OSError as error:
            broken = broken or ConnectionLost(f"the connection to {self._address} has failed: {error}")
        self._end.put(broken)

    def _feed(self, data: bytes) -> TillerError | None:
        try:
            broken = deliver(self._framing.feed(data), self._receive)
        except ProtocolError as error:
            broken = error
        if broken is not None:
            self._is_broken = True
            self._end.put(broken)
        return broken

    def _supervise(self, connection: socket.socket) -> None:
        """Waits until the end is requested or the server has ended the connection, then closes it."""
        reason = self._end.get()
        self._outbox.put(None)
        for name in ("write", "read"):
            self._threads[name].join(CLOSE_SECONDS)
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It is closed already.
        for name in ("write", "read"):
            self._threads[name].join(CLOSE_SECONDS)
        connection.close()
        self._ended(reason or ConnectionLost(f"the connection to {self._address} has ended"))
