from __future__ import annotations

import unittest

from tiller_client import ConnectFailed, ProtocolError
from tiller_client._websocket import (
    CLOSE,
    PING,
    TEXT,
    Frame,
    FrameDecoder,
    Handshake,
    apply_mask,
    encode_frame,
)


def frame(first: int, payload: bytes) -> bytes:
    """A frame of a server, which is not masked."""
    length = len(payload)
    if length < 126:
        return bytes([first, length]) + payload
    if length < 1 << 16:
        return bytes([first, 126]) + length.to_bytes(2, "big") + payload
    return bytes([first, 127]) + length.to_bytes(8, "big") + payload


class Frames(unittest.TestCase):
    def test_frames_are_the_same_however_they_are_cut(self) -> None:
        data = (
            frame(0x81, b"{}")
            + frame(0x01, b"a" * 130)
            + frame(0x89, b"?")
            + frame(0x00, b"")
            + frame(0x80, b"z")
            + frame(0x81, b"")
            + frame(0x88, b"\x03\xe8")
        )
        expected = [
            Frame(TEXT, b"{}"),
            Frame(PING, b"?"),
            Frame(TEXT, b"a" * 130 + b"z"),
            Frame(TEXT, b""),
            Frame(CLOSE, b"\x03\xe8"),
        ]
        for size in range(1, len(data) + 1):
            decoder = FrameDecoder()
            frames: list[Frame] = []
            for start in range(0, len(data), size):
                frames += decoder.feed(data[start : start + size])
            self.assertEqual(frames, expected)

    def test_all_lengths_are_encoded_and_masked(self) -> None:
        for length in (0, 1, 125, 126, 127, 65535, 65536, 100_001):
            payload = bytes(index % 251 for index in range(length))
            encoded = encode_frame(TEXT, payload)
            self.assertEqual(encoded[0], 0x81)
            self.assertTrue(encoded[1] & 0x80)
            masked, mask = encoded[len(encoded) - length :], encoded[len(encoded) - length - 4 :][:4]
            self.assertEqual(apply_mask(masked, mask), payload)
            head = encoded[: len(encoded) - length - 4]
            plain = bytes([head[0], head[1] & 0x7F]) + head[2:] + payload
            self.assertEqual(FrameDecoder().feed(plain), [Frame(TEXT, payload)])

    def test_broken_frames_are_refused(self) -> None:
        table = [
            (frame(0xC1, b""), "an extension"),
            (b"\x81\x80\0\0\0\0", "masks"),
            (frame(0x83, b""), "unknown kind 3"),
            (frame(0x8B, b""), "unknown kind 11"),
            (frame(0x09, b""), "control frame"),
            (frame(0x89, b"a" * 126), "control frame"),
            (frame(0x80, b"a"), "out of order"),
            (frame(0x01, b"a") + frame(0x81, b"b"), "out of order"),
            (frame(0x81, b"a" * 11), "more than 10 bytes"),
            (frame(0x01, b"a" * 6) + frame(0x80, b"a" * 5), "more than 10 bytes"),
        ]
        for data, why in table:
            with self.subTest(why=why), self.assertRaisesRegex(ProtocolError, why):
                FrameDecoder(limit=10).feed(data)


class Handshakes(unittest.TestCase):
    def test_the_request_has_the_token(self) -> None:
        lines = Handshake("localhost:1", "/", "secret").request.decode().split("\r\n")
        self.assertEqual(lines[:2], ["GET / HTTP/1.1", "Host: localhost:1"])
        self.assertIn("Authorization: Bearer secret", lines)
        self.assertEqual(lines[-2:], ["", ""])
        self.assertNotIn(b"Authorization", Handshake("localhost:1", "/", None).request)

    def test_a_token_cannot_add_headers(self) -> None:
        with self.assertRaisesRegex(ConnectFailed, "line break"):
            Handshake("localhost:1", "/", "a\r\nHost: other")

    def test_other_responses_are_explained(self) -> None:
        table = [
            (b"HTTP/1.1 401 Unauthorized", 401, "refuses the token"),
            (b"HTTP/1.1 404 Not Found\r\nA: b", 404, "refuses a WebSocket: 404 Not Found"),
            (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket", 101, "not as a WebSocket"),
            (b"SSH-2.0-OpenSSH", None, "does not speak HTTP"),
            (b"", None, "does not speak HTTP"),
        ]
        for head, status, why in table:
            with self.subTest(why=why), self.assertRaisesRegex(ConnectFailed, why) as failed:
                Handshake("localhost:1", "/", None).check(head)
            self.assertEqual(failed.exception.status, status)


if __name__ == "__main__":
    unittest.main()
