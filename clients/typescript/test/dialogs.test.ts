/** Questions and notices of extensions. */

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Answer, Dialog, DialogHandlers, Display, Notice } from "tiller-client";

import { Place, WAIT } from "./support.js";

const QUESTIONS = `
export default function (pi) {
  pi.registerCommand("ask", {
    description: "Ask everything",
    handler: async (args, ctx) => {
      const limited = args === "soon" ? { timeout: 20 } : {};
      const answers = [
        await ctx.ui.select("Which?", ["red", "green"], limited),
        await ctx.ui.confirm("Sure?", "Really?", limited),
        await ctx.ui.input("Name?", "your name", limited),
      ];
      if (args !== "soon") answers.push(await ctx.ui.editor("Text?", "dear"));
      ctx.ui.setStatus("build", "3 of 7");
      ctx.ui.setWidget("plan", ["look", "fix"]);
      ctx.ui.notify(JSON.stringify(answers.map((one) => one ?? null)), "warning");
    },
  });
}
`;

/** What the extension shows after its questions. */
async function ask(handlers: DialogHandlers, command = "/ask") {
  await using place = await Place.make();
  const displays: Display[] = [];
  const notices: Notice[] = [];
  const extension = await place.file("extension.ts", QUESTIONS);
  const tiller = await place.client("say hi\n", {
    args: ["-e", extension],
    onNotify: (notice) => notices.push(notice),
    onDisplay: (display) => displays.push(display),
    ...handlers,
  });
  const result = await tiller.prompt(command).result(WAIT);
  assert.deepEqual([result.status, result.ok], ["handled", true]);
  // All records of the extension have arrived before this response.
  await tiller.getState();
  assert.equal(notices.length, 1);
  return { displays, notice: notices[0] };
}

test("every kind of dialog is answered", async () => {
  const asked: Dialog[] = [];
  const onDialog = async (dialog: Dialog): Promise<Answer> => {
    asked.push(dialog);
    if (dialog.method === "select") return dialog.options.at(-1);
    return dialog.method === "confirm" ? true : "Ada";
  };
  const { displays, notice } = await ask({ onDialog });
  assert.equal(notice?.message, '["green",true,"Ada","Ada"]');
  assert.equal(notice?.notifyType, "warning");
  assert.deepEqual(
    asked.map(({ method }) => method),
    ["select", "confirm", "input", "editor"],
  );
  assert.deepEqual(
    displays.map(({ method }) => method),
    ["setStatus", "setWidget"],
  );
});

test("without a handler dialogs are cancelled", async () => {
  assert.equal((await ask({})).notice?.message, "[null,false,null,null]");
});

test("an answer of the wrong type cancels", async () => {
  const onDialog = (dialog: Dialog): Answer => (dialog.method === "confirm" ? "yes" : true);
  assert.equal((await ask({ onDialog })).notice?.message, "[null,false,null,null]");
});

test("a handler that throws cancels, and the error is reported", async () => {
  const errors: string[] = [];
  const { notice } = await ask({
    onDialog: ({ title }) => {
      throw new Error(title);
    },
    onHandlerError: ({ message }) => errors.push(message),
  });
  assert.equal(notice?.message, "[null,false,null,null]");
  assert.deepEqual(errors, ["Which?", "Sure?", "Name?", "Text?"]);
});

test("a dialog that is never answered ends by its own time limit", async () => {
  const { notice } = await ask({ onDialog: () => new Promise<Answer>(() => {}) }, "/ask soon");
  assert.equal(notice?.message, "[null,false,null]");
});
