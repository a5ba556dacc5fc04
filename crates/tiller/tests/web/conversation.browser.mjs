// A conversation in the browser, from an empty page to the cost of the answers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { missing, needsOwnServer, newSession, openPage, send, settled, shown, withPage } from "./page.mjs";

const SCRIPT = `chunk words
pace 2ms
think The plan has the berth. I will read it first.
say "I will **look** at the plan."
call bash {"command":"for i in 1 2 3; do echo step $i; sleep 0.2; done"}
call read {"path":"plan.md"}
usage input=1500 output=60

call edit {"path":"plan.md","edits":[{"oldText":"Berth 3","newText":"Berth 4"}]}
call bash {"command":"echo no; exit 3"}
usage input=2500 output=90

say "## Done\\n\\nThe ship goes to *berth 4*:\\n\\n\`\`\`text\\nBerth 4\\n\`\`\`\\n\\n- one\\n- two"
usage input=4000 output=200

say Second answer.
usage input=5000 output=20
`;
const FILES = { "plan.md": "# Plan\n\nShip: Ada\nBerth 3\n" };

test("conversation_streams_with_tools_diffs_and_meter", { skip: needsOwnServer() }, () => withPage("conversation", { script: SCRIPT, files: FILES }, async ({ server, tab }) => {
  await openPage(tab, server.address);
  assert.equal(await tab.eval("location.hash"), "", "the token leaves the address");
  await newSession(tab, server.project, { name: "Harbour" });
  await send(tab, "Move the ship");
  await tab.untilText(".user", "Move the ship");
  // The card shows the output of the tool while it runs.
  await tab.until("(() => { const card = document.querySelector('.tool[data-state=running]'); return card?.innerText.includes('step 1') && !card.innerText.includes('step 3') })()");
  assert.equal(await tab.eval("document.getElementById('abort').hidden"), false);
  await tab.untilText(".answer h5", "Done");
  await settled(tab);
  assert.equal(await tab.eval("document.querySelector('.answer strong').textContent"), "look");
  assert.equal(await tab.eval("document.querySelector('.answer em').textContent"), "berth 4");
  assert.equal(await tab.eval("document.querySelector('.code code').textContent"), "Berth 4");
  assert.equal(await tab.eval("document.querySelectorAll('.answer .md li').length"), 2);
  assert.equal(await tab.eval("document.querySelector('details.think').open"), false, "thinking is folded");
  // The diff has signs beside its colours.
  assert.deepEqual(await tab.eval("[...document.querySelectorAll('.diff .add, .diff .del')].map((row) => row.textContent)"), ["4 −removed: Berth 3", "4 +added: Berth 4"]);
  assert.equal(await server.read("plan.md"), "# Plan\n\nShip: Ada\nBerth 4\n");
  // A failure is told in words.
  assert.match(await tab.text(".tool.err .state"), /Failed/);
  assert.match(await tab.text(".tool.err"), /exit(ed)? (with )?(code )?3|code 3/);
  await tab.until("document.getElementById('usage').innerText.includes('8k')");
  await tab.until("document.querySelectorAll('#chart .line').length === 1");
  assert.match(await tab.text("#context-text"), /of 200k tokens/);
  assert.equal(await tab.text("#session-name"), "Harbour");
  assert.match(await tab.eval("document.title"), /^Harbour/);
  await tab.untilText("#open-list", "Harbour");
}));

test("reload_of_the_page_shows_the_same_session", { skip: needsOwnServer() }, () => withPage("reload", { script: SCRIPT, files: FILES }, async ({ server, tab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project);
  await send(tab, "Move the ship");
  await tab.untilText(".answer h5", "Done");
  await settled(tab);
  const before = await tab.text("#entries");
  await tab.reload();
  await shown(tab);
  await tab.untilText(".answer h5", "Done");
  const comparable = (text) => text.replace(/ · [\d.]+ (ms|s)\b/g, "").replace(/\s+/g, " ");
  assert.equal(comparable(await tab.text("#entries")), comparable(before));
}));

test("session_is_renamed_closed_and_opened_again", { skip: needsOwnServer() }, () => withPage("rename", { script: SCRIPT, files: FILES }, async ({ server, tab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project);
  await send(tab, "Move the ship");
  await tab.untilText(".answer h5", "Done");
  await settled(tab);
  await tab.click("#rename");
  await tab.until("document.getElementById('rename-dialog').open");
  await tab.eval("document.getElementById('rename-name').value = 'Lighthouse'");
  await tab.press("Enter");
  await tab.untilText("#session-name", "Lighthouse");
  await tab.click("#close-session");
  await tab.untilText("#session-name", "No session");
  await tab.untilText("#stored-list", "Lighthouse");
  assert.equal(await tab.eval("document.querySelectorAll('#open-list li').length"), 0);
  // The search finds it by name, first message and folder, and nothing else.
  for (const [words, found] of [["light", 1], ["move SHIP", 1], ["project", 1], ["nothing like it", 0]]) {
    await tab.eval(`document.getElementById('search').value = ${JSON.stringify(words)}; document.getElementById('search').dispatchEvent(new Event('input'))`);
    await tab.until(`document.querySelectorAll('#stored-list button').length === ${found}`);
  }
  await tab.eval("document.getElementById('search').value = ''; document.getElementById('search').dispatchEvent(new Event('input'))");
  await tab.click("#stored-list button");
  await tab.untilText(".answer h5", "Done");
  await tab.untilText("#session-name", "Lighthouse");
}));

const QUEUES = `chunk words
call bash {"command":"while [ ! -e go ]; do sleep 0.05; done"}

say Steered.

say Followed.

say "I could go on"
hang
`;

test("messages_are_steered_queued_removed_and_aborted", { skip: needsOwnServer() }, () => withPage("queue", { script: QUEUES }, async ({ server, tab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project);
  await send(tab, "Begin");
  await tab.until("document.querySelector('.tool[data-state=running]')");
  await send(tab, "steer me");
  await tab.type("follow me");
  await tab.press("Alt+Enter");
  await tab.type("never mind");
  await tab.press("Alt+Enter");
  await tab.until("document.querySelectorAll('#queue li').length === 3");
  await tab.click("#queue li:nth-child(3) button:last-child");
  await tab.until("document.querySelectorAll('#queue li').length === 2");
  await server.write("go", "");
  await tab.untilText(".answer", "Followed.");
  await settled(tab);
  assert.deepEqual(await tab.eval("[...document.querySelectorAll('.user .raw')].map((text) => text.textContent)"), ["Begin", "steer me", "follow me"]);
  assert.equal(await tab.eval("document.getElementById('queue').hidden"), true);
  await send(tab, "Go on");
  await tab.untilText(".answer", "I could go on");
  await tab.press("Escape");
  await settled(tab);
  await tab.untilText(".answer .foot", "Stopped");
}));

test("shell_command_of_the_user_shows_its_output", { skip: needsOwnServer() }, () => withPage("shell", { script: SCRIPT }, async ({ server, tab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project);
  await send(tab, "!echo from the shell; exit 4");
  await tab.untilText(".shell", "from the shell");
  await tab.untilText(".shell .state", "Failed with 4");
}));

test("pasted_picture_is_shown_sent_and_enlarged", { skip: needsOwnServer() }, () => withPage("picture", { script: "expect images 1\nsay I see it.\n" }, async ({ server, tab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project);
  await tab.eval(`(async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 30 });
    canvas.getContext("2d").fillRect(0, 0, 20, 30);
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([blob], "a.png", { type: "image/png" }));
    document.getElementById("message").dispatchEvent(new ClipboardEvent("paste", { clipboardData, cancelable: true, bubbles: true }));
  })()`);
  await tab.until("document.querySelectorAll('#pictures img').length === 1");
  await send(tab, "What is this?");
  await tab.untilText(".answer", "I see it.");
  await tab.until("document.querySelector('.user img')?.naturalWidth === 40");
  await tab.click(".user .picture");
  await tab.until("document.getElementById('picture-dialog').open");
  await tab.press("Escape");
}));

test("fork_goes_back_to_before_a_message", { skip: needsOwnServer() }, () => withPage("fork", { script: SCRIPT, files: FILES }, async ({ server, tab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project);
  await send(tab, "Move the ship");
  await tab.untilText(".answer h5", "Done");
  await settled(tab);
  await send(tab, "And again");
  await tab.untilText(".answer", "Second answer.");
  await settled(tab);
  await tab.eval("[...document.querySelectorAll('.fork')].at(-1).click()");
  await tab.until("document.getElementById('message').value === 'And again'");
  await tab.until("document.querySelectorAll('.user').length === 1");
}));

test("older_messages_are_read_on_demand", { skip: needsOwnServer() }, () => {
  const script = Array.from({ length: 50 }, (_, at) => `say Answer ${at}.\n`).join("\n");
  return withPage("older", { script }, async ({ server, tab }) => {
    await openPage(tab, server.address);
    await newSession(tab, server.project);
    for (let at = 0; at < 50; at += 1) {
      await send(tab, `Question ${at}`);
      await tab.untilText(".answer", `Answer ${at}.`);
      await settled(tab);
    }
    await tab.reload();
    await tab.untilText(".answer", "Answer 49.");
    assert.equal(await tab.eval("document.querySelectorAll('.user').length"), 30, "the newest page");
    await tab.eval("document.querySelector('#older button').click()");
    await tab.until("document.querySelectorAll('.user').length === 50");
    assert.equal(await tab.eval("document.getElementById('older').hidden"), true);
    assert.deepEqual(await tab.eval("[...document.querySelectorAll('.user .raw')].map((text) => text.textContent)"), Array.from({ length: 50 }, (_, at) => `Question ${at}`));
  });
});

const LONG = `say "\`\`\`js\\n"
repeat 900 "let x{i} = {i};\\n"
delta "\`\`\`\\n\\n"
repeat 4000 "word{i} "
hang
`;

test("long_code_and_long_paragraphs_stream_whole", { skip: needsOwnServer() }, () => withPage("long", { script: LONG }, async ({ server, tab }) => {
  await openPage(tab, server.address);
  await newSession(tab, server.project);
  await send(tab, "Begin");
  // Before the end, the paragraph consists of pieces; nothing of it is missing.
  await tab.until("document.querySelector('.answer p.raw')?.textContent.endsWith('word4000 ')");
  const words = Array.from({ length: 4000 }, (_, at) => `word${at + 1} `).join("");
  assert.equal(await tab.eval("document.querySelector('.answer p.raw').textContent"), words);
  await tab.press("Escape");
  await tab.until("document.querySelector('.answer.ended')");
  assert.equal(await tab.eval("document.querySelector('.answer .md > p').textContent"), words.trimEnd());
  assert.equal(await tab.eval("document.querySelector('.answer code').textContent"), Array.from({ length: 900 }, (_, at) => `let x${at + 1} = ${at + 1};`).join("\n"));
}));

test("result_is_shown_alone_until_its_call_is_read", { skip: needsOwnServer() }, () => {
  const script = Array.from({ length: 17 }, (_, at) => `call read {"path":"plan.md"}\n\nsay Answer ${at}.\n`).join("\n") + "\nsay The end.\n";
  return withPage("lonely", { script, files: FILES }, async ({ server, tab }) => {
    await openPage(tab, server.address);
    await newSession(tab, server.project);
    for (let at = 0; at < 17; at += 1) {
      await send(tab, `Question ${at}`);
      await tab.untilText(".answer", `Answer ${at}.`);
      await settled(tab);
    }
    await send(tab, "Last question");
    await tab.untilText(".answer", "The end.");
    await settled(tab);
    await tab.reload();
    await tab.untilText(".answer", "The end.");
    assert.equal(await tab.eval("document.querySelectorAll('#entries > .tool').length"), 1);
    await tab.eval("document.querySelector('#older button').click()");
    await tab.until("document.querySelectorAll('.user').length === 18");
    await tab.until("document.querySelectorAll('#entries > .tool').length === 0 && document.querySelectorAll('.answer .tool[data-state=done]').length === 17");
  });
});

test("wrong_token_is_asked_for_again", { skip: missing() }, () => withPage("token", { script: SCRIPT }, async ({ server, tab }) => {
  await tab.go(server.address.replace(/#.*/, "#token=wrong"));
  await tab.until("document.getElementById('token-dialog').open");
  await tab.until("!document.getElementById('token-error').hidden");
  await tab.eval("document.getElementById('token').focus()");
  await tab.type(server.token);
  await tab.press("Enter");
  await tab.until("document.documentElement.dataset.ready === 'yes'");
}));
