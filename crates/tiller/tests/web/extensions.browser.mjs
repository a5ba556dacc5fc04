// Questions, notices and widgets of extensions.

import assert from "node:assert/strict";
import { test } from "node:test";
import { needsOwnServer, newSession, openPage, send, shown, withPage } from "./page.mjs";

const EXTENSION = `export default function (pi) {
  pi.registerCommand("ask", {
    description: "Ask everything",
    handler: async (args, ctx) => {
      const sure = await ctx.ui.confirm("Delete the build?", "rm -rf build");
      const branch = await ctx.ui.select("Which branch?", ["main", "next"]);
      const name = await ctx.ui.input("Which name?", "a name");
      const text = await ctx.ui.editor("The text", "first line\\n");
      ctx.ui.notify("Answers: " + JSON.stringify([sure, branch, name, text]), "warning");
      ctx.ui.setStatus("build", "3 of 7");
      ctx.ui.setWidget("plan", ["1. look", "2. fix"]);
      ctx.ui.setTitle("A title of the extension");
      ctx.ui.setEditorText("text of the extension");
    },
  });
  pi.registerCommand("once", { description: "Ask once", handler: async (args, ctx) => {
    ctx.ui.notify("Answer: " + (await ctx.ui.confirm("Go?", "really")), "info");
  } });
}
`;
const options = { script: "say Hello.\n", files: { "ask.js": EXTENSION } };
const withExtension = (name, work) => withPage(name, { ...options, args: ["-e", "ask.js"] }, work);
const settle = (tab) => tab.until("(window.asked ??= performance.now()) + 400 < performance.now()").then(() => tab.eval("delete window.asked"));
const asks = async (tab, title) => {
  await tab.untilText("dialog[open] h2", title);
  await settle(tab);
};

test("questions_of_extensions_are_answered_with_the_keyboard", { skip: needsOwnServer() }, () => withExtension("questions", async ({ server, tab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project);
  await tab.type("/as");
  await tab.untilText("#completions", "Ask everything");
  await tab.press("Enter");
  assert.equal(await tab.eval("document.getElementById('message').value"), "/ask ");
  await tab.press("Enter");
  await asks(tab, "Delete the build?");
  assert.match(await tab.text("dialog[open]"), /rm -rf build/);
  // Enter alone allows nothing; the buttons are two steps away.
  await tab.press("Enter");
  assert.equal(await tab.text("dialog[open] h2"), "Delete the build?");
  await tab.press("Tab");
  await tab.press("Tab");
  await tab.press("Enter");
  await asks(tab, "Which branch?");
  await tab.press("ArrowDown");
  await tab.press("ArrowDown");
  await tab.press("Enter");
  await asks(tab, "Which name?");
  await tab.type("Ada");
  await tab.press("Enter");
  await asks(tab, "The text");
  await tab.eval("document.querySelector('dialog[open] textarea').setSelectionRange(99, 99)");
  await tab.type("second line");
  await tab.click("dialog[open] [type=submit]");
  await tab.untilText("#notices", 'Answers: [true,"next","Ada","first line\\nsecond line"]');
  await tab.untilText("#statuses", "3 of 7");
  await tab.untilText("#widgets-above", "2. fix");
  await tab.until("document.title.startsWith('A title of the extension')");
  await tab.until("document.getElementById('message').value === 'text of the extension'");
}));

test("question_goes_to_all_tabs_and_is_answered_once", { skip: needsOwnServer() }, () => withExtension("question-tabs", async ({ server, tab, newTab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project, { name: "Shared" });
  const second = await newTab();
  await openPage(second, server.address);
  await second.untilText("#open-list", "Shared");
  await second.click("#open-list button");
  await shown(second);
  await send(tab, "/once ");
  await asks(tab, "Go?");
  await asks(second, "Go?");
  await second.press("Escape");
  await tab.untilText("#notices", "Answer: false");
  await tab.until("!document.querySelector('dialog[open]')");
}));
