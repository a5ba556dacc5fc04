from __future__ import annotations

import asyncio

from support import SECONDS, TillerTest, until
from tiller_client import Event, EventsLost


class Replay(TillerTest):
    def test_a_dropped_consumer_continues_without_gap_or_duplicate(self) -> None:
        tiller = self.client("chunk words\nsay one two three\n")
        everything = tiller.events(timeout=SECONDS)
        turn = tiller.prompt("Count")
        first = until(turn, lambda event: event["type"] == "message_update")
        del turn
        continued = tiller.replay(since=tiller.seq_of(first), timeout=SECONDS)
        expected: list[Event] = []
        for event in everything:
            if tiller.seq_of(event) > tiller.seq_of(first):
                expected.append(event)
            if event["type"] == "agent_settled":
                break
        self.assertEqual([next(continued) for _ in expected], expected)

    def test_a_replay_goes_on_live(self) -> None:
        tiller = self.client("say first\n\nsay second\n")
        tiller.prompt("One").result(SECONDS).check()
        stream = tiller.replay(since=1, timeout=SECONDS)
        tiller.prompt("Two").result(SECONDS).check()
        texts: list[str] = []
        numbers: list[int] = []
        for event in stream:
            numbers.append(tiller.seq_of(event))
            if event["type"] == "prompt_result":
                texts.append(event["command"])
                if len(texts) == 2:
                    break
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_a_replay_in_the_middle_of_a_stream_misses_nothing(self) -> None:
        tiller = self.client("repeat 3000 \"word{i} \"\n")
        turn = tiller.prompt("Go")
        text: list[str] = []
        for event in tiller.replay(since=0, timeout=SECONDS):
            if event["type"] == "message_update":
                step = event["assistantMessageEvent"]
                if step["type"] == "text_delta":
                    text.append(step["delta"])
            if event["type"] == "prompt_result":
                break
        self.assertEqual("".join(text), "".join(f"word{i} " for i in range(1, 3001)))
        self.assertEqual(turn.result(SECONDS).text, "".join(text))

    def test_numbers_of_another_process_are_refused(self) -> None:
        tiller = self.client("say hi\n")
        self.assertTrue(tiller.epoch)
        with self.assertRaises(EventsLost):
            tiller.replay(since=5, epoch="another")

    def test_events_that_are_gone_are_refused(self) -> None:
        tiller = self.client("repeat 11000 x\n")
        tiller.prompt("Go").result(SECONDS).check()
        with self.assertRaisesRegex(EventsLost, "no longer has all events after 1"):
            tiller.replay(since=1)

    def test_replay_with_asyncio(self) -> None:
        async def scenario() -> None:
            async with self.async_client("say first\n\nsay second\n") as tiller:
                (await tiller.prompt("One").result(SECONDS)).check()
                stream = await tiller.replay(since=0, timeout=SECONDS)
                (await tiller.prompt("Two").result(SECONDS)).check()
                numbers: list[int] = []
                results = 0
                async for event in stream:
                    numbers.append(tiller.seq_of(event))
                    results += event["type"] == "prompt_result"
                    if results == 2:
                        break
                self.assertEqual(numbers, sorted(set(numbers)))

        asyncio.run(scenario())

