/**
 * A chat bot of a harbour office: one conversation, two tools of its own, and a budget.
 *
 *     bun bot.ts            # or: node bot.ts, from node 24 on
 *     bun bot.ts anthropic/claude-sonnet-4-5
 *
 * Without a model it talks to tiller's built-in demo model, which needs no key. Ask it to
 * `call tide {"harbour": "Kiel"}`, or for anything else; an empty line or Ctrl-D ends the program.
 */

import { createInterface } from "node:readline";

import { Client, defineTool, type Result } from "tiller-client";

const TIDES = new Map([
  ["Kiel", { high: "06:12", low: "12:30" }],
  ["Porto", { high: "03:47", low: "09:55" }],
]);
const bookings: { ship: string; berth: number }[] = [];

const tide = defineTool({
  name: "tide",
  description: "The times of high and low water in a harbour today.",
  parameters: {
    type: "object",
    properties: { harbour: { type: "string", description: "The name of the harbour" } },
    required: ["harbour"],
  },
  run({ harbour }) {
    const times = TIDES.get(harbour);
    // The model reads the error and can try another name.
    if (times === undefined)
      throw new Error(`Unknown harbour. Known: ${[...TIDES.keys()].join(", ")}`);
    return times;
  },
});

const book = defineTool({
  name: "book_berth",
  description: "Books the next free berth for a ship.",
  parameters: {
    type: "object",
    properties: { ship: { type: "string", description: "The name of the ship" } },
    required: ["ship"],
  },
  run({ ship }) {
    const booking = { ship, berth: bookings.length + 1 };
    bookings.push(booking);
    return booking;
  },
});

/** One line under each answer: how it ended, and what it has used. */
function summary({ status, reason, error, turns, usage, cost }: Result): string {
  const ending = status === "done" ? "" : `${status}: ${error ?? reason ?? "unknown"} · `;
  return `(${ending}${turns} turns, ${usage.totalTokens} tokens, $${cost.toFixed(2)})`;
}

async function answer(bot: Client, question: string): Promise<void> {
  const turn = bot.prompt(question);
  for await (const event of turn) {
    if (event.type === "message_update" && event.assistantMessageEvent.type === "text_delta") {
      process.stdout.write(event.assistantMessageEvent.delta);
    } else if (event.type === "tool_execution_start") {
      process.stdout.write(`[${event.toolName} ${JSON.stringify(event.args)}]\n`);
    }
  }
  console.log(`\n${summary(await turn.result())}`);
}

await using bot = await Client.start({
  model: process.argv[2] ?? "tiller/demo",
  args: ["--no-session"],
  tools: [tide, book],
});
// None of the tools of tiller: the bot has no business in the file system or the shell.
await bot.setActiveTools([]);
// Each question may cost ten cents, call three tools and take a minute, whatever the model thinks.
await bot.setLimits({ maxCost: 0.1, maxToolCalls: 3, maxSeconds: 60 });

console.log("Harbour office. What can I do for you?");
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === "") break;
  await answer(bot, line);
}
console.log(`${bookings.length} berths booked. Fair winds!`);
