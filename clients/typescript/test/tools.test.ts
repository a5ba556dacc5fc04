/** Tools that the test runs for the model. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { type Client, defineTool, type JsonSchema, type ToolContext } from "tiller-client";

import { all, Gate, Place, until, WAIT } from "./support.js";

const ANY = { type: "object" } as const satisfies JsonSchema;

function tool(name: string, run: (args: object, context: ToolContext) => unknown) {
  return defineTool({ name, description: `The tool ${name}.`, parameters: ANY, run });
}

test("a function is called with typed arguments", async () => {
  await using place = await Place.make();
  const script = 'call add {"a": 2, "b": 3}\n\nexpect tool-result 5\nsay Five.\n';
  const add = defineTool({
    name: "add",
    description: "Adds two numbers.",
    parameters: {
      type: "object",
      properties: { a: { type: "number" }, b: { type: "number" } },
      required: ["a"],
    },
    run: ({ a, b = 0 }) => a + b,
  });
  const tiller = await place.client(script, { tools: [add] });
  const offered = (await tiller.getTools()).tools.find(({ name }) => name === "add");
  assert.deepEqual([offered?.source, offered?.description], ["host", "Adds two numbers."]);
  assert.equal((await tiller.prompt("Add").result(WAIT)).check().text, "Five.");
});

test("wrong arguments do not reach the function", async () => {
  await using place = await Place.make();
  const strict = defineTool({
    name: "strict",
    description: "Wants a number.",
    parameters: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
    run: () => assert.fail("called"),
  });
  const script = 'call strict {"n": "two"}\n\nexpect tool-error has Validation failed\nsay Oh.\n';
  const tiller = await place.client(script, { tools: [strict] });
  (await tiller.prompt("Go").result(WAIT)).check();
});

test("a result can have details and be an error", async () => {
  await using place = await Place.make();
  const script = "call look\n\nexpect tool-error a shore\nsay Land.\n";
  const content = [{ type: "text", text: "a shore" }];
  const look = tool("look", () => ({ content, details: { seen: 1 }, isError: true }));
  const tiller = await place.client(script, { tools: [look] });
  const turn = tiller.prompt("Look");
  assert.deepEqual((await until(turn, "tool_execution_end")).result.details, { seen: 1 });
  (await turn.result(WAIT)).check();
});

test("a tool that throws gives the model its error", async () => {
  await using place = await Place.make();
  const script = "call fail\n\nexpect tool-error the tide is out\nsay A pity.\n";
  const fail = tool("fail", () => {
    throw new Error("the tide is out");
  });
  const tiller = await place.client(script, { tools: [fail] });
  assert.equal((await tiller.prompt("Try").result(WAIT)).check().text, "A pity.");
});

test("a result that is not JSON is an error", async () => {
  await using place = await Place.make();
  const script = "call big\n\nexpect tool-error has BigInt\nsay No.\n";
  const tiller = await place.client(script, { tools: [tool("big", () => ({ n: 1n }))] });
  (await tiller.prompt("Try").result(WAIT)).check();
});

test("a result that tiller refuses is replaced", async () => {
  await using place = await Place.make();
  const script =
    "call draw\n\nexpect tool-error has The tool returned an invalid result\nsay No.\n";
  const draw = tool("draw", () => ({ content: [{ type: "text" }] }));
  const tiller = await place.client(script, { tools: [draw] });
  (await tiller.prompt("Try").result(WAIT)).check();
});

test("progress is shown", async () => {
  await using place = await Place.make();
  const gate = new Gate();
  const work = tool("work", async (_, context) => {
    await context.update("half");
    // The result waits until the update was seen: updates that arrive together are merged.
    await gate.pass();
    return "whole";
  });
  const tiller = await place.client("call work\n\nsay Done.\n", { tools: [work] });
  const turn = tiller.prompt("Work");
  const update = await until(turn, "tool_execution_update");
  assert.match(JSON.stringify(update.partialResult), /half/);
  gate.open();
  (await turn.result(WAIT)).check();
});

test("an abort cancels the call", async () => {
  await using place = await Place.make();
  const gate = new Gate();
  const { promise: cancelled, resolve: onCancelled } = withResolvers<unknown>();
  const wait = tool("wait", async (_, { signal }) => {
    signal.addEventListener("abort", () => onCancelled(signal.reason));
    await gate.pass();
    signal.throwIfAborted();
  });
  const tiller = await place.client("call wait\n", { tools: [wait] });
  const turn = tiller.prompt("Wait");
  await gate.entered;
  await turn.abort();
  assert.match(String(await cancelled), /tiller has cancelled the call/);
  assert.equal((await turn.result(WAIT)).status, "aborted");
  gate.open();
});

test("a time limit cancels the call", async () => {
  await using place = await Place.make();
  const script = "call slow\n\nexpect tool-error has did not answer within 20 ms\nsay Late.\n";
  const { promise: cancelled, resolve: onCancelled } = withResolvers<void>();
  const run = (_: object, { signal }: ToolContext) =>
    new Promise(() => signal.addEventListener("abort", () => onCancelled()));
  const slow = { ...tool("slow", run), timeoutMs: 20 };
  const tiller = await place.client(script, { tools: [slow] });
  (await tiller.prompt("Wait").result(WAIT)).check();
  await cancelled;
});

test("the end of the client cancels the call", async () => {
  await using place = await Place.make();
  const { promise: called, resolve: onCalled } = withResolvers<AbortSignal>();
  const stay = tool("stay", (_, { signal }) => {
    onCalled(signal);
    return new Promise(() => {});
  });
  const tiller = await place.client("call stay\n", { tools: [stay] });
  const turn = tiller.prompt("Stay");
  const signal = await called;
  await tiller.close();
  assert(signal.aborted);
  assert.equal((await turn.result(WAIT)).reason, "shutdown");
});

test("calls of one turn run at the same time", async () => {
  await using place = await Place.make();
  const both = new Gate();
  let entered = 0;
  const meet = tool("meet", async () => {
    entered += 1;
    if (entered === 2) both.open();
    await both.pass();
    return "met";
  });
  const tiller = await place.client("call meet\ncall meet\n\nsay Met.\n", { tools: [meet] });
  assert.equal((await tiller.prompt("Meet").result(WAIT)).check().text, "Met.");
});

test("a tool can use the client", async () => {
  await using place = await Place.make();
  const tiller: Client = await place.client(
    "call rename\n\nexpect tool-result harbour\nsay Done.\n",
  );
  await tiller.addTool(
    tool("rename", async () => {
      await tiller.setSessionName("harbour");
      return (await tiller.getState()).sessionName;
    }),
  );
  (await tiller.prompt("Go").result(WAIT)).check();
});

test("tools are added, refused and removed", async () => {
  await using place = await Place.make();
  const script = "expect tools has one\nexpect tools lacks two\nsay OK.\n";
  const tiller = await place.client(script);
  const one = tool("one", () => "1");
  await Promise.all([tiller.addTool(one), tiller.addTool(tool("two", () => "2"))]);
  await assert.rejects(tiller.addTool(tool("ls", () => "")), /conflicts with an existing tool/);
  await assert.rejects(tiller.addTool(one), /names must be unique/);
  await tiller.removeTool("two");
  (await tiller.prompt("Go").result(WAIT)).check();
});

test("tools can be selected", async () => {
  await using place = await Place.make();
  const tiller = await place.client("expect tools read\nsay OK.\n");
  assert.deepEqual((await tiller.setActiveTools(["read"])).tools, ["read"]);
  const turn = tiller.prompt("Go");
  assert.equal((await all(turn)).at(-1)?.type, "prompt_result");
  (await turn.result(WAIT)).check();
  await assert.rejects(tiller.setActiveTools(["saw"]), /Tool not found: saw/);
});

function withResolvers<T>() {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((onValue) => (resolve = onValue));
  return { promise, resolve };
}
