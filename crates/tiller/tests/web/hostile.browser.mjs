// Hostile content stays inert, wherever it comes from.

import assert from "node:assert/strict";
import { test } from "node:test";
import { needsOwnServer, newSession, openPage, send, settled, withPage } from "./page.mjs";

/** Texts that would call `harm()`, change the page or leave it, if they were more than text. */
const TRICKS = [
  "<script>harm()</script>",
  "</script><script>harm()</script>",
  "<img src=x onerror=harm()>",
  "\" onmouseover=\"harm()\" x=\"",
  "[x](javascript:harm())",
  "[x](JaVaScRiPt:harm()) <javascript:harm()>",
  "![x](javascript:harm()) ![x](http://127.0.0.1:9/p.png)",
  "[x](data:text/html,<script>harm()</script>)",
  "<iframe srcdoc='<script>parent.harm()</script>'></iframe>",
  "<svg><script>harm()</script></svg><math><style>",
  "<style>*{display:none}</style><link rel=stylesheet href=http://127.0.0.1:9/x.css>",
  "<base href=http://127.0.0.1:9/><meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
  "<form id=log><input name=children></form><a id=entries></a>",
  "a\u0007b \u202etxet\u202c \u2066x\u2069 \u001b[31mred\u001b[0m \u001b]8;;http://127.0.0.1:9/\u0007link",
  "```html\n</code></pre><script>harm()</script>\n```",
  "`</code><script>harm()</script>`",
  "| <script>harm()</script> |\n|--|\n| <img src=x onerror=harm()> |",
  "<textarea><title><noscript><plaintext>",
  "# <img src=x onerror=harm()>\n\n> <script>harm()</script>",
  "1. <b onclick=harm()>x</b>\n\n   [y](vbscript:harm())",
];
const ALL = TRICKS.join("\n\n");
const string = JSON.stringify;

const SCRIPT = [
  "chunk 7",
  `think ${string(ALL)}`,
  `say ${string(ALL)}`,
  `call bash ${string({ command: `cat tricks.txt; printf '%s' '${TRICKS[2]}'` })}`,
  `call read ${string({ path: "tricks.txt" })}`,
  `call read ${string({ path: `${TRICKS[2]}.txt` })}`,
  `call edit ${string({ path: "tricks.txt", edits: [{ oldText: "MARK", newText: TRICKS[0] }] })}`,
  `call write ${string({ path: "<img src=x onerror=harm()>.txt", content: ALL })}`,
  `call ${"nothing"} ${string({ [TRICKS[2]]: ALL })}`,
  "",
  `error fatal ${string(TRICKS.slice(0, 4).join(" "))}`,
  "",
].join("\n");

const EXTENSION = `export default function (pi) {
  const trick = ${string(TRICKS.slice(0, 6).join(" ") + TRICKS[13])};
  pi.registerCommand("trick", { description: trick, handler: async (args, ctx) => {
    ctx.ui.notify(trick, "error");
    ctx.ui.setStatus(trick, trick);
    ctx.ui.setWidget(trick, [trick, trick]);
    ctx.ui.setTitle(trick);
    await ctx.ui.select(trick, [trick, "b"]);
    await ctx.ui.confirm(trick, trick);
    await ctx.ui.input(trick, trick);
    await ctx.ui.editor(trick, trick);
    throw new Error(trick);
  } });
}
`;

test("hostile_content_stays_inert", { skip: needsOwnServer() }, () => withPage("hostile", {
  script: SCRIPT, files: { "tricks.txt": `${ALL}\nMARK\n`, "trick.js": EXTENSION }, args: ["-e", "trick.js"],
}, async ({ server, tab }) => {
  await openPage(tab, server.address);
  const elements = await tab.eval("document.querySelectorAll('script, style, link, iframe, object, embed, base, meta, form, svg').length");
  await newSession(tab, server.project, { name: `${TRICKS[0]}${TRICKS[2]} \u202etxet` });
  await send(tab, ALL);
  await tab.untilText(".answer .error", "Error:");
  await settled(tab);
  await tab.eval("document.querySelectorAll('details').forEach((fold) => { fold.open = true }); document.querySelectorAll('.more').forEach((more) => more.click())");
  await tab.type("/tri");
  await tab.until("!document.getElementById('completions').hidden");
  await tab.eval("document.getElementById('message').value = '/trick'; document.getElementById('composer').requestSubmit()");
  for (const method of ["select", "confirm", "input", "editor"]) {
    await tab.until(`document.querySelector('dialog.${method}[open]')`);
    assert.match(await tab.text(`dialog.${method} h2`), /<script>harm\(\)<\/script>/);
    await tab.press("Escape");
    await tab.until(`!document.querySelector('dialog.${method}')`);
  }
  await tab.untilText(".note.error", "<script>");
  // Everything is hovered over and focused.
  await tab.eval("for (const element of document.querySelectorAll('#entries *, #open-list *')) { element.dispatchEvent(new Event('mouseover', { bubbles: true })); element.focus?.() }");
  // Stored sessions show names and first messages.
  await tab.click("#close-session");
  await tab.untilText("#stored-list", "<script>");
  await tab.click("#stored-list button");
  await tab.untilText(".answer .error", "Error:");
  await tab.eval("document.querySelectorAll('details').forEach((fold) => { fold.open = true })");
  await tab.until("document.querySelector('details.think .md')");

  assert.equal(await tab.eval("document.querySelectorAll('script').length"), 1, "the page's own script");
  assert.deepEqual(await tab.eval("[...document.querySelectorAll('#entries, #lists, #notices, #dock').values()].flatMap((part) => [...part.querySelectorAll('script, style, link, iframe, object, embed, base, meta, math, title, noscript, textarea:not(#message), form:not(#composer), input:not(#file), svg script')]).map((element) => element.outerHTML)"), []);
  assert.ok(elements > 0);
  assert.deepEqual(await tab.eval("[...document.querySelectorAll('*')].flatMap((element) => element.getAttributeNames()).filter((name) => name.startsWith('on') || name === 'srcdoc')"), []);
  assert.deepEqual(await tab.eval("[...new Set([...document.querySelectorAll('#entries a[href]')].map((link) => link.protocol))].filter((protocol) => !['http:', 'https:'].includes(protocol))"), []);
  assert.deepEqual(await tab.eval("[...document.querySelectorAll('a[target]')].filter((link) => !link.rel.includes('noopener')).length"), 0);
  assert.deepEqual(await tab.eval("[...document.querySelectorAll('#entries img')].map((image) => image.src).filter((source) => !source.startsWith('data:image/'))"), []);
  const text = await tab.eval("document.getElementById('entries').textContent");
  for (const said of ["<script>harm()</script>", "<plaintext>", "a␇b ⟨U+202E⟩txet⟨U+202C⟩ ⟨U+2066⟩x⟨U+2069⟩ red link"]) assert.ok(text.includes(said), said);
  assert.ok(!/[\u202a-\u202e\u2066-\u2069\u001b]/.test(await tab.eval("document.documentElement.textContent + document.title + [...document.querySelectorAll('[title], [aria-label]')].map((element) => element.title + element.ariaLabel).join('')")), "no control reorders the text");
  const foreign = tab.requests.filter((address) => !address.startsWith(server.address.split("#")[0]) && !address.startsWith("data:") && address !== "about:blank");
  assert.deepEqual(foreign, []);
}));

test("policy_of_the_page_allows_nothing_inline", { skip: needsOwnServer() }, () => withPage("policy", { script: "say Hello.\n" }, async ({ server }) => {
  const response = await fetch(server.address);
  const policy = response.headers.get("content-security-policy");
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /script-src 'self'(;|$)/);
  assert.match(policy, /style-src 'self'(;|$)/);
  assert.ok(!/unsafe|\*/.test(policy), policy);
  assert.equal(response.headers.get("x-content-type-options"), "nosniff");
  const html = await response.text();
  assert.ok(!/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=/.test(html), "nothing inline");
  for (const [, path] of html.matchAll(/(?:src|href)="(web\/[^"]+)"/g)) {
    const asset = await fetch(new URL(path, response.url));
    assert.equal(asset.status, 200, path);
    assert.match(asset.headers.get("content-type"), path.endsWith(".css") ? /^text\/css/ : /^text\/javascript/);
  }
}));
