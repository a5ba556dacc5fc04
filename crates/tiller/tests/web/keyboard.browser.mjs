// The page without a mouse, and on a phone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { needsOwnServer, newSession, openPage, send, settled, withPage } from "./page.mjs";

const SCRIPT = `say "First.\\n\\n\`\`\`text\\n${"a very long line of code ".repeat(30)}\\n\`\`\`\\n\\n| a | b | c | d | e | f | g | h |\\n|---|---|---|---|---|---|---|---|\\n| ${"wide cell | ".repeat(8)}\\n\\n${"x".repeat(400)}"
call bash {"command":"echo ${"y".repeat(400)}"}
call edit {"path":"plan.md","edits":[{"oldText":"Berth 3","newText":"${"Berth 4 ".repeat(40)}"}]}

say Second.

say Third.
`;
const FILES = { "plan.md": "Berth 3\n" };

/** Presses Tab until an element is focused. */
async function tabTo(tab, selector, { back = false } = {}) {
  for (let steps = 0; steps < 80; steps += 1) {
    if (await tab.eval(`document.activeElement.matches(${JSON.stringify(selector)})`)) return;
    await tab.press(back ? "Shift+Tab" : "Tab");
  }
  assert.fail(`Tab never comes to ${selector}`);
}

test("everything_is_done_with_the_keyboard", { skip: needsOwnServer() }, () => withPage("keyboard", { script: SCRIPT, files: FILES }, async ({ server, tab }) => {
  await openPage(tab, server.address);
  await tabTo(tab, "#new-session");
  await tab.press("Enter");
  await tab.until("document.activeElement.id === 'new-cwd'");
  await tab.type(server.project);
  await tab.press("Enter");
  await tab.until("document.activeElement.id === 'message'");
  await tab.type("One");
  await tab.press("Shift+Enter");
  await tab.type("line two");
  await tab.press("Enter");
  await tab.untilText(".answer", "Second.");
  await settled(tab);
  assert.equal(await tab.eval("document.querySelector('.user .raw').textContent"), "One\nline two");
  // Through the messages, and back to the box.
  await tabTo(tab, ".icon", { back: true });
  await tab.press("k");
  await tab.until("document.activeElement.matches('.answer')");
  await tab.press("k");
  await tab.press("k");
  await tab.until("document.activeElement.matches('.user')");
  await tab.press("Tab");
  assert.ok(await tab.eval("document.activeElement.matches('.fork')"), "the fork of a message is reached");
  assert.notEqual(await tab.eval("getComputedStyle(document.activeElement).outlineStyle"), "none", "the focus is seen");
  await tab.press("?");
  await tab.until("document.getElementById('help').open");
  await tab.press("Escape");
  await tab.until("!document.getElementById('help').open");
  await tab.press("/");
  await tab.until("document.activeElement.id === 'message'");
  // The search and the list.
  await tab.until("document.querySelector('#open-list .session')");
  await tab.press("Control+k");
  await tab.until("document.activeElement.id === 'search'");
  await tab.press("ArrowDown");
  await tab.until("document.activeElement.matches('.session')");
  await tab.press("Enter");
  await tab.until("document.activeElement.id === 'message'");
  // Rename, choose a thinking level, close.
  await tabTo(tab, "#rename", { back: true });
  await tab.press("Enter");
  await tab.until("document.activeElement.id === 'rename-name'");
  await tab.type("Named by keys");
  await tab.press("Enter");
  await tab.untilText("#session-name", "Named by keys");
  await tabTo(tab, "#thinking");
  await tab.press("h");
  await tab.until("document.getElementById('thinking').value === 'high'");
  await tabTo(tab, "#close-session", { back: true });
  await tab.press("Enter");
  await tab.untilText("#session-name", "No session");
}));

test("page_has_landmarks_names_and_one_polite_voice", { skip: needsOwnServer() }, () => withPage("names", { script: SCRIPT, files: FILES }, async ({ server, tab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project);
  await send(tab, "One");
  await tab.untilText(".answer", "Second.");
  await settled(tab);
  for (const selector of ["main", "aside#side", "nav", "aside#panel"]) assert.ok(await tab.eval(`!!document.querySelector(${JSON.stringify(selector)})`), selector);
  const nameless = await tab.eval("[...document.querySelectorAll('button, input, select, textarea')].filter((control) => !(control.innerText?.trim() || control.textContent.trim() || control.ariaLabel || control.labels?.length || control.hidden)).map((control) => control.outerHTML)");
  assert.deepEqual(nameless, []);
  assert.equal(await tab.eval("document.querySelectorAll('#entries [aria-live], #entries [role=log], #entries [role=status]').length"), 0, "tokens are not read one by one");
  await tab.until("document.getElementById('announcer').textContent === 'The answer is complete'");
}));

test("phone_width_has_no_horizontal_scrolling", { skip: needsOwnServer() }, () => withPage("phone", { script: SCRIPT, files: FILES }, async ({ server, tab }) => {
  await tab.size(360, 720);
  await openPage(tab, server.address);
  const fits = async (what) => {
    assert.ok(await tab.eval("document.documentElement.scrollWidth <= 360"), what);
    assert.equal(await tab.eval("(() => { const box = document.getElementById('scroll'); return box.scrollWidth - box.clientWidth })()"), 0, what);
    const wide = await tab.eval("[...document.querySelectorAll('#main *')].filter((element) => element.checkVisibility() && !element.closest('.wide, .code, .diff, .sr, svg') && element.getBoundingClientRect().right > 361).map((element) => element.tagName + '.' + element.className)");
    assert.deepEqual(wide, [], what);
  };
  await fits("without a session");
  await tab.click("#toggle-side");
  await tab.until("!document.documentElement.classList.contains('no-side')");
  await newSession(tab, server.project, { name: "A name that is much longer than a phone is wide, and then some" });
  await send(tab, "One " + "z".repeat(300));
  await tab.untilText(".answer", "Second.");
  await settled(tab);
  await fits("with a conversation");
  await tab.click("#toggle-panel");
  await tab.until("document.getElementById('panel').getBoundingClientRect().right <= 361");
  await tab.press("Escape");
  await tab.until("document.documentElement.classList.contains('no-panel')");
  // The controls of the message box are large enough for fingers.
  const small = await tab.eval("[...document.querySelectorAll('#composer button, #bar button')].filter((button) => button.checkVisibility()).map((button) => button.getBoundingClientRect()).filter(({ width, height }) => width < 40 || height < 40).length");
  assert.equal(small, 0);
}));

test("theme_follows_the_system_and_the_button", { skip: needsOwnServer() }, () => withPage("theme", { script: SCRIPT }, async ({ server, tab }) => {
  await tab.dark();
  await openPage(tab, server.address);
  const dark = await tab.eval("getComputedStyle(document.body).backgroundColor");
  await tab.click("#theme");
  const light = await tab.eval("getComputedStyle(document.body).backgroundColor");
  assert.notEqual(dark, light);
  await tab.reload();
  assert.equal(await tab.eval("getComputedStyle(document.body).backgroundColor"), light, "the choice is kept");
}));
