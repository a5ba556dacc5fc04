/** Prompts, streams, queues and limits, against the real program. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  CommandRefused,
  defineTool,
  image,
  imageFromFile,
  RunFailed,
  Timeout,
} from "tiller-client";

import { all, firstText, Gate, kinds, Place, until, WAIT } from "./support.js";

/** One black pixel. */
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC",
  "base64",
);

test("a prompt is answered", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say Hello there.\nusage input=10 output=3\n");
  const result = await tiller.prompt("Hi").result(WAIT);
  assert.deepEqual([result.status, result.text, result.ok], ["done", "Hello there.", true]);
  assert.deepEqual([result.runs, result.turns, result.messages], [1, 1, 2]);
  assert.deepEqual([result.usage.input, result.usage.output, result.cost], [10, 3, 0]);
  assert.equal(result.check(), result);
});

test("events come in order and end with the result", async () => {
  await using place = await Place.make();
  const tiller = await place.client("chunk words\nsay one two three\n");
  const turn = tiller.prompt("Count");
  const expected = ["agent_start", "turn_start", "message_start", "message_end"];
  expected.push("message_start", "message_end", "turn_end", "agent_end", "prompt_result");
  assert.deepEqual(kinds(await all(turn)), expected);
  assert(turn.done);
  assert.deepEqual(await all(turn), []);
});

test("text is streamed", async () => {
  await using place = await Place.make();
  const tiller = await place.client("chunk words\nthink Hm.\nsay one two three\n");
  const turn = tiller.prompt("Count");
  assert.deepEqual(await all(turn.textStream()), ["one", " two", " three"]);
  assert.equal(turn.text, "one two three");
});

test("an iteration that was left can be continued", async () => {
  await using place = await Place.make();
  const tiller = await place.client("chunk words\nsay one two three\n");
  const turn = tiller.prompt("Count");
  const first = await until(turn, "message_update");
  const rest = await all(turn);
  const numbers = rest.map((event) => event.seq);
  assert.deepEqual(
    numbers,
    rest.map((_, index) => (first.seq ?? 0) + 1 + index),
  );
  assert.equal(rest.at(-1)?.type, "prompt_result");
});

test("prompts follow each other without a pause", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say again\n\n".repeat(50));
  for (let n = 0; n < 50; n += 1) (await tiller.prompt("Go").result(WAIT)).check();
});

test("unusual line separators pass through", async () => {
  await using place = await Place.make();
  const text = "a\u2028b\u2029c\u0085d";
  const tiller = await place.client(`expect user "${text}"\nsay "${text}"\n`);
  assert.equal((await tiller.prompt(text).result(WAIT)).text, text);
});

test("an image is sent", async () => {
  await using place = await Place.make();
  const tiller = await place.client("expect images 1\nsay A dot.\n");
  const images = [await imageFromFile(await place.file("dot.png", PNG))];
  assert.deepEqual(images, [image(PNG, "image/png")]);
  assert.equal((await tiller.prompt("Look", { images }).result(WAIT)).check().text, "A dot.");
  await assert.rejects(imageFromFile("notes.txt"), /does not have the name of an image/);
});

test("a failed answer is an error", async () => {
  await using place = await Place.make();
  const tiller = await place.client("error fatal 400 no such thing\n");
  const result = await tiller.prompt("Hi").result(WAIT);
  assert.deepEqual([result.status, result.ok], ["error", false]);
  assert.throws(() => result.check(), RunFailed);
  assert.throws(() => result.check(), /status error: .*no such thing/);
});

test("an abort keeps the partial answer", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say I could go on\nhang\n");
  const turn = tiller.prompt("Go");
  await firstText(turn.textStream());
  await turn.abort();
  const { status, reason, text } = await turn.result(WAIT);
  assert.deepEqual([status, reason, text], ["aborted", "abort", "I could go on"]);
  assert.equal((await tiller.getState()).isStreaming, false);
  await turn.abort();
});

test("a signal aborts a prompt", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say I could go on\nhang\n");
  const controller = new AbortController();
  const turn = tiller.prompt("Go", { signal: controller.signal });
  await firstText(turn.textStream());
  controller.abort();
  assert.equal((await turn.result(WAIT)).status, "aborted");
  const late = tiller.prompt("Never sent", { signal: controller.signal });
  await assert.rejects(late.result(WAIT), { name: "AbortError" });
});

test("a second prompt is refused while tiller is busy", async () => {
  await using place = await Place.make();
  const tiller = await place.client("hang\n");
  const turn = tiller.prompt("Go");
  const second = tiller.prompt("Me too");
  for (const wait of [second.accepted, second.result(WAIT), all(second)]) {
    await assert.rejects(wait, (error) => {
      assert(error instanceof CommandRefused);
      assert.equal(error.command, "prompt");
      assert.match(error.error, /already processing/);
      return true;
    });
  }
  await second.abort();
  assert.equal(turn.done, false);
  await turn.abort();
});

test("abort_and_prompt replaces the run", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say first\nhang\n\nsay second\n");
  const first = tiller.prompt("One");
  await firstText(first.textStream());
  const second = tiller.abortAndPrompt("Two");
  assert.equal((await first.result(WAIT)).status, "aborted");
  assert.equal((await second.result(WAIT)).check().text, "second");
});

test("waits can time out", async () => {
  await using place = await Place.make();
  const tiller = await place.client("hang\n");
  const turn = tiller.prompt("Go");
  await assert.rejects(turn.result({ timeoutMs: 10 }), Timeout);
  await turn.accepted;
  // The events of the start of the run are read first.
  await assert.rejects(all(tiller.events({ timeoutMs: 500 })), Timeout);
  const slow = tiller.request({ type: "bash", command: "sleep 600" }, { timeoutMs: 10 });
  await assert.rejects(slow, /no response to bash within 10 ms/);
  await tiller.abortBash();
  await turn.abort();
});

/** A tool that keeps the run where the test wants it. */
function gateTool(gate: Gate) {
  return defineTool({
    name: "gate",
    description: "Waits until the test opens it.",
    parameters: { type: "object" },
    async run() {
      await gate.pass();
      return "open";
    },
  });
}

async function gated(place: Place, script: string) {
  const gate = new Gate();
  const tiller = await place.client(script, { tools: [gateTool(gate)] });
  const turn = tiller.prompt("Go", { clientMessageId: "mine" });
  await gate.entered;
  return { gate, tiller, turn };
}

test("a steering message gets its own events", async () => {
  await using place = await Place.make();
  const { gate, turn } = await gated(place, 'call gate {}\n\nexpect user "Be brief"\nsay Brief.\n');
  const steering = turn.steer("Be brief");
  assert.equal(await steering.accepted, "queued");
  gate.open();
  assert.deepEqual(kinds(await all(steering)).slice(0, 2), ["message_start", "message_end"]);
  assert.equal((await steering.result(WAIT)).status, "done");
  assert.equal(steering.text, "Brief.");
  assert.equal((await turn.result(WAIT)).check().text, "Brief.");
});

test("a message after the end of a run starts another", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say One.\n\nsay Two.\n\nsay Three.\n");
  const turn = tiller.prompt("First");
  (await turn.result(WAIT)).check();
  assert.equal((await turn.followUp("Second").result(WAIT)).text, "Two.");
  assert.equal((await turn.steer("Third").result(WAIT)).text, "Three.");
});

test("a follow-up gets only its own events", async () => {
  await using place = await Place.make();
  const { gate, turn } = await gated(place, "call gate {}\n\nsay First.\n\nsay Second.\n");
  const later = turn.followUp("And then?");
  await later.accepted;
  gate.open();
  const first = await turn.result(WAIT);
  assert.deepEqual([first.record.clientMessageId, first.text], ["mine", "First."]);
  assert.deepEqual(await all(later.textStream()), ["Second."]);
  assert.equal((await later.result(WAIT)).record.command, "prompt");
});

test("a prompt can be queued", async () => {
  await using place = await Place.make();
  const { gate, tiller, turn } = await gated(place, "call gate {}\n\nsay First.\n\nsay Second.\n");
  const queued = tiller.prompt("Then this", { whenBusy: "followUp" });
  assert.equal(await queued.accepted, "queued");
  gate.open();
  assert.equal((await turn.result(WAIT)).text, "First.");
  assert.equal((await queued.result(WAIT)).text, "Second.");
});

test("queued messages can be read, changed and removed", async () => {
  await using place = await Place.make();
  const script = 'call gate {}\n\nexpect user "Better"\nsay Done.\n';
  const { gate, tiller, turn } = await gated(place, script);
  const one = tiller.steer("Good", { clientMessageId: "one" });
  const two = tiller.followUp("Never mind");
  const { messages } = await tiller.getQueue();
  assert.deepEqual(
    messages.map(({ queue, text }) => [queue, text]),
    [
      ["steering", "Good"],
      ["followUp", "Never mind"],
    ],
  );
  const changed = await tiller.updateQueued({ clientMessageId: "one", message: "Better" });
  assert.equal(changed.message.text, "Better");
  await two.abort();
  const { status, reason } = await two.result(WAIT);
  assert.deepEqual([status, reason], ["dropped", "removed"]);
  await assert.rejects(tiller.removeQueued({ queueId: "none" }), /Queued message not found/);
  gate.open();
  assert.equal((await turn.result(WAIT)).check().text, "Done.");
  assert.equal((await one.result(WAIT)).status, "done");
});

test("clearing the queues drops their messages", async () => {
  await using place = await Place.make();
  const { gate, tiller, turn } = await gated(place, "call gate {}\n\nsay Done.\n");
  const queued = tiller.followUp("Later");
  await queued.accepted;
  assert.deepEqual((await tiller.clearQueue()).followUp, ["Later"]);
  assert.deepEqual(kinds(await all(queued)), ["prompt_result"]);
  assert.equal((await queued.result(WAIT)).reason, "cleared");
  gate.open();
  assert.equal((await turn.result(WAIT)).status, "done");
});

test("a limit ends the run", async () => {
  await using place = await Place.make();
  const tiller = await place.client("call ls {}\n\nsay Done.\n\nsay Again.\n");
  assert.deepEqual((await tiller.setLimits({ maxTurns: 1 })).limits, { maxTurns: 1 });
  assert.deepEqual((await tiller.getLimits()).limits, { maxTurns: 1 });
  const events = tiller.events(WAIT);
  const { status, reason } = await tiller.prompt("Go").result(WAIT);
  assert.deepEqual([status, reason], ["limit", "maxTurns"]);
  const reached = await until(events, "limit_reached");
  assert.deepEqual([reached.limit, reached.max], ["maxTurns", 1]);
  assert.deepEqual((await tiller.setLimits()).limits, {});
  (await tiller.prompt("Go on").result(WAIT)).check();
});
