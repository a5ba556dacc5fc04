"""The client's side of a WebSocket (RFC 6455), without any input or output."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass

from .errors import ConnectFailed, ProtocolError

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA

#: Close codes: the connection is no longer needed; the peer has broken a rule.
NORMAL, BROKEN = 1000, 1002

#: A longer message breaks the connection.
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
MAX_CONTROL_BYTES = 125

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Handshake:
    """The HTTP request that opens a WebSocket, and the check of its response."""

    def __init__(self, host: str, path: str, token: str | None) -> None:
        self._key = base64.b64encode(os.urandom(16)).decode("ascii")
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {self._key}",
            "Sec-WebSocket-Version: 13",
        ]
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        if any("\r" in line or "\n" in line for line in lines):
            raise ConnectFailed("the address or the token contains a line break")
        self.request = "\r\n".join([*lines, "", ""]).encode("utf-8")

    def check(self, head: bytes) -> None:
        """Raises `ConnectFailed` unless the head of the response accepts the WebSocket."""
        first, *others = head.decode("latin-1").split("\r\n")
        parts = first.split(" ", 2)
        if not parts[0].startswith("HTTP/1.") or len(parts) < 2 or not parts[1].isdigit():
            raise ConnectFailed(f"the server does not speak HTTP: {first[:100]!r}")
        status = int(parts[1])
        if status == 401:
            raise ConnectFailed("the server refuses the token: 401", status)
        if status != 101:
            raise ConnectFailed(f"the server refuses a WebSocket: {' '.join(parts[1:])}", status)
        fields = (line.partition(":") for line in others)
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        digest = hashlib.sha1((self._key + GUID).encode("ascii")).digest()
        accept = base64.b64encode(digest).decode("ascii")
        if headers.get("upgrade", "").lower() != "websocket" or headers.get("sec-websocket-accept") != accept:
            raise ConnectFailed("the server has answered, but not as a WebSocket", status)


def encode_frame(opcode: int, payload: bytes) -> bytes:
    """A whole message or a control frame, masked as every frame of a client must be."""
    length = len(payload)
    if length < 126:
        size = bytes([0x80 | length])
    elif length < 1 << 16:
        size = bytes([0x80 | 126]) + length.to_bytes(2, "big")
    else:
        size = bytes([0x80 | 127]) + length.to_bytes(8, "big")
    mask = os.urandom(4)
    return bytes([0x80 | opcode]) + size + mask + apply_mask(payload, mask)


def apply_mask(payload: bytes, mask: bytes) -> bytes:
    """XOR with the repeated mask, as one operation on large numbers."""
    length = len(payload)
    repeated = (mask * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(length, "big")


def close_frame(code: int) -> bytes:
    return encode_frame(CLOSE, code.to_bytes(2, "big"))


@dataclass(frozen=True)
class Frame:
    """A message whose fragments were joined, or a control frame."""

    opcode: int
    payload: bytes


class FrameDecoder:
    """Cuts a stream of bytes into messages and control frames."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray()
        #: The kind and the fragments of a message that is not complete.
        self._opcode: int | None = None
        self._fragments: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes. Raises `ProtocolError` if the server breaks a rule."""
        self._buffer += data
        frames: list[Frame] = []
        while (header := self._header()) is not None:
            final, opcode, start, length = header
            if len(self._buffer) < start + length:
                break
            payload = bytes(self._buffer[start : start + length])
            del self._buffer[: start + length]
            if opcode >= CLOSE:
                frames.append(Frame(opcode, payload))
            else:
                frames += self._add_fragment(final, opcode, payload)
        return frames

    def _header(self) -> tuple[bool, int, int, int] | None:
        """Whether the next frame is final, its opcode, the start of its payload and its length."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        final, opcode, length, start = bool(buffer[0] & 0x80), buffer[0] & 0x0F, buffer[1], 2
        if buffer[0] & 0x70:
            raise ProtocolError("the WebSocket uses an extension that was not agreed on")
        if length & 0x80:
            raise ProtocolError("the server masks the frames of its WebSocket")
        if opcode not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise ProtocolError(f"the WebSocket has a frame of the unknown kind {opcode}")
        if length > MAX_CONTROL_BYTES:
            bytes_of_length = 2 if length == 126 else 8
            start += bytes_of_length
            if len(buffer) < start:
                return None
            length = int.from_bytes(buffer[2:start], "big")
        if opcode >= CLOSE and (length > MAX_CONTROL_BYTES or not final):
            raise ProtocolError("the WebSocket has a control frame that is too long or not whole")
        if self._size + length > self._limit:
            raise ProtocolError(f"the server has sent a message of more than {self._limit} bytes")
        return final, opcode, start, length

    def _add_fragment(self, final: bool, opcode: int, payload: bytes) -> list[Frame]:
        if (opcode == CONTINUATION) != (self._opcode is not None):
            raise ProtocolError("the fragments of a message of the WebSocket are out of order")
        if self._opcode is None:
            self._opcode = opcode
        self._fragments.append(payload)
        self._size += len(payload)
        if not final:
            return []
        message = Frame(self._opcode, b"".join(self._fragments))
        self._opcode = None
        self._fragments = []
        self._size = 0
        return [message]
