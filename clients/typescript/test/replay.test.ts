/** Consumers that have lost their place. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { type Event, EventsLost } from "tiller-client";

import { all, Place, until, WAIT } from "./support.js";

test("a consumer continues without a gap or a duplicate", async () => {
  await using place = await Place.make();
  const tiller = await place.client("chunk words\nsay one two three\n");
  const everything = tiller.events(WAIT);
  const turn = tiller.prompt("Count");
  const first = (await until(turn, "message_update")).seq ?? 0;
  const continued = await tiller.replay(first, { epoch: tiller.epoch, ...WAIT });
  const expected: Event[] = [];
  for await (const event of everything) {
    if ((event.seq ?? 0) > first) expected.push(event);
    if (event.type === "agent_settled") break;
  }
  const actual: (Event | undefined)[] = [];
  for (const _ of expected) actual.push((await continued.next()).value);
  assert.deepEqual(actual, expected);
});

test("a replay goes on live", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say first\n\nsay second\n");
  (await tiller.prompt("One").result(WAIT)).check();
  const stream = await tiller.replay(0, WAIT);
  (await tiller.prompt("Two").result(WAIT)).check();
  const numbers: number[] = [];
  let results = 0;
  for await (const event of stream) {
    numbers.push(event.seq ?? 0);
    if (event.type === "prompt_result") results += 1;
    if (results === 2) break;
  }
  assert.deepEqual(
    numbers,
    [...new Set(numbers)].sort((a, b) => a - b),
  );
});

test("a replay in the middle of a stream misses nothing", async () => {
  await using place = await Place.make();
  const tiller = await place.client('repeat 3000 "word{i} "\n');
  const turn = tiller.prompt("Go");
  let text = "";
  for await (const event of await tiller.replay(0, WAIT)) {
    if (event.type === "message_update" && event.assistantMessageEvent.type === "text_delta") {
      text += event.assistantMessageEvent.delta;
    }
    if (event.type === "prompt_result") break;
  }
  const expected = Array.from({ length: 3000 }, (_, index) => `word${index + 1} `).join("");
  assert.equal(text, expected);
  assert.equal((await turn.result(WAIT)).text, expected);
});

test("numbers of another process are refused", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say hi\n");
  assert(tiller.epoch);
  await assert.rejects(tiller.replay(1, { epoch: "another" }), EventsLost);
});

test("events that are gone are refused", async () => {
  await using place = await Place.make();
  const tiller = await place.client("repeat 11000 x\n");
  (await tiller.prompt("Go").result(WAIT)).check();
  await assert.rejects(tiller.replay(1), /no longer has all events after 1/);
});

test("a slow consumer that sends commands gets everything", async () => {
  await using place = await Place.make();
  const tiller = await place.client('repeat 9000 "word{i} "\n');
  const turn = tiller.prompt("Go");
  let text = "";
  let pieces = 0;
  for await (const piece of turn.textStream()) {
    text += piece;
    pieces += 1;
    if (pieces % 500 === 0) await tiller.getState();
  }
  assert.equal(text, turn.text);
  assert.match(text, /word9000 $/);
  assert.equal((await all(turn)).length, 0);
});
