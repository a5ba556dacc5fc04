// Several tabs on one session, and a connection or a server that goes and comes back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { needsOwnServer, newSession, openPage, send, settled, shown, withPage } from "./page.mjs";

const SLOW = `chunk words
call bash {"command":"echo started; while [ ! -e go ]; do sleep 0.05; done; echo finished"}

pace 5ms
say one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty

say Another answer.
`;
const WHOLE = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty";

test("two_tabs_on_one_session_show_the_same_answer", { skip: needsOwnServer() }, () => withPage("two-tabs", { script: SLOW }, async ({ server, tab, newTab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project, { name: "Shared" });
  await send(tab, "Begin");
  await tab.until("document.querySelector('.tool[data-state=running]')");
  // The second tab joins in the middle of the run.
  const second = await newTab();
  await openPage(second, server.address);
  await second.untilText("#open-list", "Shared");
  await second.click("#open-list button");
  await shown(second);
  await second.untilText(".user", "Begin");
  await second.until("document.querySelector('.tool[data-state=running]')?.innerText.includes('started')");
  await server.write("go", "");
  for (const each of [tab, second]) {
    await each.untilText(".answer", WHOLE);
    await settled(each);
  }
  // The second one may prompt as well.
  await send(second, "From the other side");
  for (const each of [tab, second]) {
    await each.untilText(".answer", "Another answer.");
    await settled(each);
    assert.deepEqual(await each.eval("[...document.querySelectorAll('.user .raw')].map((text) => text.textContent)"), ["Begin", "From the other side"]);
    assert.equal(await each.eval("document.querySelectorAll('.answer').length"), 3);
  }
}));

test("lost_connection_is_continued_without_gap_or_duplicate", { skip: needsOwnServer() }, () => withPage("cut", { script: SLOW }, async ({ server, tab }) => {
  await server.startProxy();
  await openPage(tab, server.proxyAddress);
  await newSession(tab, server.project);
  await send(tab, "Begin");
  await tab.until("document.querySelector('.tool[data-state=running]')?.innerText.includes('started')");
  await tab.eval("document.querySelector('.tool').dataset.mark = 'same'");
  server.cut();
  await tab.until("!document.getElementById('banner').hidden");
  assert.match(await tab.text("#banner"), /lost/);
  assert.equal(await tab.text("#connection"), "Not connected");
  await tab.click("#message");
  await tab.type("typed meanwhile");
  await tab.press("Enter");
  // The run goes on while nothing of it is seen.
  await server.write("go", "");
  server.mend();
  await tab.untilText(".answer", WHOLE);
  await settled(tab);
  await tab.until("document.getElementById('connection').textContent === 'Connected'");
  assert.equal(await tab.eval("document.getElementById('message').value"), "typed meanwhile");
  assert.equal(await tab.eval("document.querySelector('.tool').dataset.mark"), "same", "the conversation was not read again");
  assert.match(await tab.text(".tool"), /started\s+finished/);
  assert.equal(await tab.eval("document.querySelectorAll('.answer').length"), 2);
  await tab.press("Enter");
  await tab.untilText(".answer", "Another answer.");
}));

test("message_that_never_arrived_is_in_the_box_again", { skip: needsOwnServer() }, () => withPage("swallow", { script: SLOW }, async ({ server, tab }) => {
  await server.startProxy();
  await openPage(tab, server.proxyAddress);
  await newSession(tab, server.project);
  server.swallow();
  await send(tab, "Lost on its way");
  await tab.until("document.getElementById('message').value === ''");
  server.cut();
  await tab.until("!document.getElementById('banner').hidden");
  server.mend();
  await tab.until("document.getElementById('connection').textContent === 'Connected'");
  await tab.until("document.getElementById('message').value === 'Lost on its way'");
  await tab.untilText("#notices", "in the message box again");
  assert.equal(await tab.eval("document.querySelectorAll('.user').length"), 0);
}));

test("killed_and_restarted_server_continues_the_session", { skip: needsOwnServer() }, () => withPage("restart", { script: SLOW }, async ({ server, tab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project, { name: "Durable" });
  await send(tab, "Begin");
  await tab.until("document.querySelector('.tool[data-state=running]')?.innerText.includes('started')");
  await server.kill();
  await tab.until("!document.getElementById('banner').hidden");
  await tab.click("#message");
  await tab.type("still here");
  await server.write("go", "");
  await server.restart();
  await tab.until("document.getElementById('connection').textContent === 'Connected'");
  await tab.untilText("#session-name", "Durable");
  await tab.until("document.getElementById('banner').hidden");
  await tab.untilText(".user", "Begin");
  assert.equal(await tab.eval("document.getElementById('message').value"), "still here");
  await settled(tab);
  // The script begins again with the new server, and its first command ends at once.
  await tab.until("document.getElementById('composer-hint').textContent === ''");
  await tab.press("Enter");
  await tab.untilText(".answer", WHOLE);
  assert.deepEqual(await tab.eval("[...document.querySelectorAll('.user .raw')].map((text) => text.textContent)"), ["Begin", "still here"]);
}));

test("fork_in_one_tab_is_followed_by_the_other", { skip: needsOwnServer() }, () => withPage("fork-tabs", { script: "say One.\n\nsay Two.\n\nsay Three.\n" }, async ({ server, tab, newTab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project, { name: "Shared" });
  for (const [question, answer] of [["First", "One."], ["Second", "Two."]]) {
    await send(tab, question);
    await tab.untilText(".answer", answer);
    await settled(tab);
  }
  const second = await newTab();
  await openPage(second, server.address);
  await second.untilText("#open-list", "Shared");
  await second.click("#open-list button");
  await second.untilText(".answer", "Two.");
  await second.eval("[...document.querySelectorAll('.fork')].at(-1).click()");
  for (const each of [second, tab]) await each.until("document.querySelectorAll('.user').length === 1 && document.querySelectorAll('.answer').length === 1");
}));

test("session_closed_elsewhere_is_left", { skip: needsOwnServer() }, () => withPage("closed", { script: SLOW }, async ({ server, tab, newTab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project, { name: "Shared" });
  const second = await newTab();
  await openPage(second, server.address);
  await second.untilText("#open-list", "Shared");
  await second.click("#open-list button");
  await shown(second);
  await second.click("#close-session");
  await tab.untilText("#session-name", "No session");
  await tab.untilText("#notices", "The session was closed");
}));
