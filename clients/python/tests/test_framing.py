from __future__ import annotations

import unittest

from tiller_client import ProtocolError
from tiller_client._core import refusal
from tiller_client._framing import LineSplitter, decode, encode


class Refusals(unittest.TestCase):
    def test_a_session_that_another_process_has_names_that_process(self) -> None:
        owner = {"program": "tiller 0.1.0", "pid": 7, "host": "quay", "address": "ws://10.0.0.7:7433"}
        record = {"error": "in use", "code": "session_in_use", "data": {"owner": owner}}
        error = refusal("open_session", record)
        self.assertEqual((error.code, error.handle, error.owner), ("session_in_use", None, owner))

    def test_a_refusal_without_details_has_none(self) -> None:
        error = refusal("prompt", {"error": "no model"})
        self.assertEqual((error.code, error.handle, error.owner), (None, None, None))


class Framing(unittest.TestCase):
    def test_only_lf_ends_a_line(self) -> None:
        text = 'a\u2028b\u2029c\u0085d\x0be\r'.encode()
        self.assertEqual(LineSplitter().feed(text + b"\nrest"), [text])

    def test_lines_are_the_same_however_they_are_cut(self) -> None:
        data = 'one\n\nzwölf 🚢\nlast'.encode()
        for size in range(1, len(data) + 1):
            splitter = LineSplitter()
            lines: list[bytes] = []
            for start in range(0, len(data), size):
                lines += splitter.feed(data[start : start + size])
            self.assertEqual(lines + splitter.rest(), data.split(b"\n"))
            self.assertEqual(splitter.rest(), [])

    def test_a_command_is_one_line(self) -> None:
        line = encode({"type": "prompt", "message": "a\nb\u2028c"})
        self.assertEqual(line.count(b"\n"), 1)
        self.assertEqual(decode(line), {"type": "prompt", "message": "a\nb\u2028c"})

    def test_an_unpaired_surrogate_does_not_fail(self) -> None:
        self.assertEqual(decode(encode({"m": "\ud83d"})), {"m": "?"})

    def test_what_is_not_json_names_the_command(self) -> None:
        with self.assertRaisesRegex(TypeError, "'prompt' cannot be written as JSON"):
            encode({"type": "prompt", "message": object()})

    def test_blank_lines_are_nothing(self) -> None:
        self.assertIsNone(decode(b" \r"))

    def test_what_is_not_a_record_is_an_error(self) -> None:
        for line, why in ((b"oops", "not JSON"), (b"[1]", "not a JSON object"), (b'{"a"', "not JSON")):
            with self.assertRaisesRegex(ProtocolError, why):
                decode(line)


if __name__ == "__main__":
    unittest.main()
