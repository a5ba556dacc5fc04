from __future__ import annotations

import struct
import threading
import zlib

from support import SECONDS, TillerTest, kinds, until
from tiller_client import CommandRefused, Event, Image, RunFailed, Timeout

def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


#: One black pixel.
PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(b"\0\0\0\0"))
    + chunk(b"IEND", b"")
)


class Prompts(TillerTest):
    def test_a_prompt_is_answered(self) -> None:
        tiller = self.client("say Hello there.\nusage input=10 output=3\n")
        result = tiller.prompt("Hi").result(SECONDS)
        self.assertEqual((result.status, result.text, result.ok), ("done", "Hello there.", True))
        self.assertEqual((result.runs, result.turns, result.messages), (1, 1, 2))
        self.assertEqual((result.usage["input"], result.usage["output"], result.cost), (10, 3, 0))
        self.assertIs(result.check(), result)

    def test_events_come_in_order_and_end_with_the_result(self) -> None:
        tiller = self.client("chunk words\nsay one two three\n")
        turn = tiller.prompt("Count")
        events = list(turn)
        self.assertEqual(
            kinds(events),
            ["agent_start", "turn_start", "message_start", "message_end", "message_start", "message_end"]
            + ["turn_end", "agent_end", "prompt_result"],
        )
        self.assertTrue(turn.done)
        self.assertEqual(list(turn), [])

    def test_text_is_streamed(self) -> None:
        tiller = self.client("chunk words\nthink Hm.\nsay one two three\n")
        turn = tiller.prompt("Count")
        self.assertEqual(list(turn.text_stream()), ["one", " two", " three"])
        self.assertEqual(turn.text, "one two three")

    def test_an_iteration_can_be_continued(self) -> None:
        tiller = self.client("chunk words\nsay one two three\n")
        turn = tiller.prompt("Count")
        first: list[Event] = []
        for event in turn:
            first.append(event)
            if event["type"] == "message_update":
                break
        rest = list(turn)
        self.assertEqual(kinds(first + rest)[-1], "prompt_result")
        numbers = [tiller.seq_of(event) for event in first + rest]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))

    def test_prompts_follow_each_other_without_a_pause(self) -> None:
        tiller = self.client("say again\n\n" * 50)
        for _ in range(50):
            self.assertEqual(tiller.prompt("Go").result(SECONDS).status, "done")

    def test_unusual_line_separators_pass_through(self) -> None:
        text = "a\u2028b\u2029c\u0085d"
        tiller = self.client(f'expect user "{text}"\nsay "{text}"\n')
        self.assertEqual(tiller.prompt(text).result(SECONDS).text, text)

    def test_an_image_is_sent(self) -> None:
        path = self.folder / "dot.png"
        path.write_bytes(PNG)
        tiller = self.client("expect images 1\nsay A dot.\n")
        result = tiller.prompt("Look", images=[Image.from_file(path)]).result(SECONDS)
        self.assertEqual(result.check().text, "A dot.")

    def test_a_file_that_is_no_image_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "does not have the name of an image"):
            Image.from_file(self.folder / "notes.txt")

    def test_a_failed_answer_is_an_error(self) -> None:
        tiller = self.client("error fatal 400 no such thing\n")
        result = tiller.prompt("Hi").result(SECONDS)
        self.assertEqual((result.status, result.ok), ("error", False))
        self.assertIn("no such thing", result.error or "")
        with self.assertRaisesRegex(RunFailed, "status error: .*no such thing"):
            result.check()

    def test_an_abort_keeps_the_partial_answer(self) -> None:
        tiller = self.client("say I could go on\nhang\n")
        turn = tiller.prompt("Go")
        for _ in turn.text_stream():
            break
        turn.abort()
        result = turn.result(SECONDS)
        self.assertEqual((result.status, result.reason, result.text), ("aborted", "abort", "I could go on"))
        self.assertFalse(tiller.get_state()["isStreaming"])
        turn.abort()

    def test_a_second_prompt_is_refused_while_busy(self) -> None:
        tiller = self.client("hang\n")
        turn = tiller.prompt("Go")
        with self.assertRaises(CommandRefused) as refused:
            tiller.prompt("Me too")
        self.assertEqual(refused.exception.command, "prompt")
        self.assertIn("already processing", refused.exception.error)
        turn.abort()

    def test_abort_and_prompt_replaces_the_run(self) -> None:
        tiller = self.client("say first\nhang\n\nsay second\n")
        first = tiller.prompt("One")
        next(first.text_stream())
        second = tiller.abort_and_prompt("Two")
        self.assertEqual(first.result(SECONDS).status, "aborted")
        self.assertEqual(second.result(SECONDS).check().text, "second")

    def test_a_result_can_time_out(self) -> None:
        tiller = self.client("hang\n")
        turn = tiller.prompt("Go")
        with self.assertRaises(Timeout):
            turn.result(0.01)
        with self.assertRaises(TimeoutError):
            next(tiller.events(timeout=0.01))
        turn.abort()


class Queues(TillerTest):
    """A tool of the host that waits keeps the run where the test wants it."""

    def setUp(self) -> None:
        super().setUp()
        self.entered = threading.Event()
        self.leave = threading.Event()
        self.addCleanup(self.leave.set)

    def gate(self) -> str:
        """Waits until the test opens it."""
        self.entered.set()
        self.leave.wait(SECONDS)
        return "open"

    def test_a_steering_message_gets_its_own_events(self) -> None:
        tiller = self.client('call gate {}\n\nexpect user "Be brief"\nsay Brief.\n', tools=[self.gate])
        turn = tiller.prompt("Go")
        self.assertTrue(self.entered.wait(SECONDS))
        steering = turn.steer("Be brief")
        self.leave.set()
        events = list(steering)
        self.assertEqual(kinds(events)[:2], ["message_start", "message_end"])
        self.assertEqual(steering.result(SECONDS).status, "done")
        self.assertEqual(steering.text, "Brief.")
        self.assertEqual(turn.result(SECONDS).check().text, "Brief.")

    def test_a_message_after_the_end_of_a_run_starts_another(self) -> None:
        tiller = self.client("say One.\n\nsay Two.\n\nsay Three.\n")
        turn = tiller.prompt("First")
        turn.result(SECONDS).check()
        self.assertEqual(turn.follow_up("Second").result(SECONDS).text, "Two.")
        self.assertEqual(turn.steer("Third").result(SECONDS).text, "Three.")

    def test_a_follow_up_gets_only_its_own_events(self) -> None:
        tiller = self.client("call gate {}\n\nsay First.\n\nsay Second.\n", tools=[self.gate])
        turn = tiller.prompt("Go", client_message_id="mine")
        self.assertTrue(self.entered.wait(SECONDS))
        later = turn.follow_up("And then?")
        self.leave.set()
        self.assertEqual(turn.result(SECONDS).record.get("clientMessageId"), "mine")
        self.assertEqual(turn.text, "First.")
        self.assertEqual("".join(later.text_stream()), "Second.")
        self.assertEqual(later.result(SECONDS).record["command"], "prompt")

    def test_a_prompt_can_be_queued(self) -> None:
        tiller = self.client("call gate {}\n\nsay First.\n\nsay Second.\n", tools=[self.gate])
        turn = tiller.prompt("Go")
        self.assertTrue(self.entered.wait(SECONDS))
        queued = tiller.prompt("Then this", when_busy="followUp")
        self.leave.set()
        self.assertEqual(turn.result(SECONDS).text, "First.")
        self.assertEqual(queued.result(SECONDS).text, "Second.")

    def test_queued_messages_can_be_read_changed_and_removed(self) -> None:
        tiller = self.client('call gate {}\n\nexpect user "Better"\nsay Done.\n', tools=[self.gate])
        turn = tiller.prompt("Go")
        self.assertTrue(self.entered.wait(SECONDS))
        one = tiller.steer("Good", client_message_id="one")
        two = tiller.follow_up("Never mind")
        queue = tiller.get_queue()["messages"]
        self.assertEqual([(m["queue"], m["text"]) for m in queue], [("steering", "Good"), ("followUp", "Never mind")])
        changed = tiller.update_queued("Better", client_message_id="one")
        self.assertEqual(changed["message"]["text"], "Better")
        two.abort()
        self.assertEqual(two.result(SECONDS).status, "dropped")
        self.assertEqual(two.result(SECONDS).reason, "removed")
        with self.assertRaisesRegex(CommandRefused, "Queued message not found"):
            tiller.remove_queued(queue_id="none")
        self.leave.set()
        self.assertEqual(turn.result(SECONDS).check().text, "Done.")
        self.assertEqual(one.result(SECONDS).status, "done")

    def test_clearing_the_queues_drops_their_messages(self) -> None:
        tiller = self.client("call gate {}\n\nsay Done.\n", tools=[self.gate])
        turn = tiller.prompt("Go")
        self.assertTrue(self.entered.wait(SECONDS))
        queued = tiller.follow_up("Later")
        self.assertEqual(tiller.clear_queue()["followUp"], ["Later"])
        result = queued.result(SECONDS)
        self.assertEqual((result.status, result.reason), ("dropped", "cleared"))
        self.assertEqual([event["type"] for event in queued], ["prompt_result"])
        self.leave.set()
        self.assertEqual(turn.result(SECONDS).status, "done")


class Limits(TillerTest):
    def test_a_limit_ends_the_run(self) -> None:
        tiller = self.client("call ls {}\n\nsay Done.\n")
        self.assertEqual(tiller.set_limits(max_turns=1)["limits"].get("maxTurns"), 1)
        self.assertEqual(tiller.get_limits()["limits"].get("maxTurns"), 1)
        events = tiller.events(timeout=SECONDS)
        result = tiller.prompt("Go").result(SECONDS)
        self.assertEqual((result.status, result.reason), ("limit", "maxTurns"))
        reached = until(events, lambda event: event["type"] == "limit_reached")
        assert reached["type"] == "limit_reached"
        self.assertEqual((reached["limit"], reached["max"]), ("maxTurns", 1))

    def test_limits_can_be_removed(self) -> None:
        tiller = self.client("call ls {}\n\nsay Done.\n")
        tiller.set_limits(max_turns=1)
        self.assertEqual(tiller.set_limits()["limits"], {})
        self.assertEqual(tiller.prompt("Go").result(SECONDS).status, "done")
