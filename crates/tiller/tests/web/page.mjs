// What the browser tests do with the page: open it, start sessions, send messages.

import assert from "node:assert/strict";
import { join } from "node:path";
import { Chromium, findChromium } from "./chromium.mjs";
import { runsAlready, Server } from "./servers.mjs";

/** Why the browser tests cannot run, or false. */
export function missing() {
  if (!findChromium()) return "there is no Chromium: install Debian's `chromium`, or name one by CHROMIUM";
  if (!process.env.TILLER_BIN && !process.env.TILLER_SERVE && !runsAlready) return "name the program by TILLER_BIN, or a server by TILLER_SERVE";
  return false;
}

/** Why a test that needs its own server cannot run, or false. */
export const needsOwnServer = () => missing() || (runsAlready && "the server runs already and has another script");

/** Runs a test with a server and a browser. If it fails, screenshots are in TMPDIR. */
export async function withPage(name, options, test) {
  const server = await Server.start(options);
  const browser = await Chromium.start();
  const tabs = [];
  const newTab = async (scripts) => {
    tabs.push(await browser.tab(scripts));
    return tabs.at(-1);
  };
  try {
    const tab = await newTab();
    await test({ server, tab, newTab });
    for (const tab of tabs) assert.deepEqual(await tab.misdeeds(), []);
  } catch (error) {
    for (const [at, tab] of tabs.entries()) {
      const path = join(process.env.TMPDIR ?? "/tmp", `tiller-web-${name}-${at}.png`);
      await tab.screenshot(path).catch(() => {});
      error.message += `\n(screenshot: ${path}; misdeeds: ${JSON.stringify(await tab.misdeeds().catch(() => []))})`;
    }
    throw error;
  } finally {
    await browser.stop();
    await server.stop();
  }
}

/** Opens the page and waits until it is connected. */
export async function openPage(tab, address) {
  await tab.go(address);
  await tab.until("document.documentElement.dataset.ready === 'yes'");
}

/** Starts a session in a folder and waits until a message can be typed. */
export async function newSession(tab, folder, { name } = {}) {
  await tab.click("#new-session");
  await tab.until("document.getElementById('new-dialog').open");
  await tab.eval(`document.getElementById('new-cwd').value = ${JSON.stringify(folder)}; document.getElementById('new-name').value = ${JSON.stringify(name ?? "")}`);
  await tab.click("#new-dialog [type=submit]");
  await shown(tab);
  await tab.until("document.activeElement.id === 'message'");
}

/** Waits until a session is shown. */
export const shown = (tab) => tab.until("!document.getElementById('composer').hidden && !!document.getElementById('log').dataset.ready && !document.getElementById('session-name').textContent.startsWith('No session')");

/** Types a message and sends it. */
export async function send(tab, text) {
  await tab.click("#message");
  await tab.type(text);
  await tab.press("Enter");
}

export const settled = (tab) => tab.until("document.getElementById('activity').hidden");
