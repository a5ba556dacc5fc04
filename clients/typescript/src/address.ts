/** Where a server of sessions listens, and the token that it wants. */

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

import { ConnectFailed, toError } from "./errors.js";

/** `unix:PATH` or `ws://HOST:PORT`. */
export type Address =
  { kind: "unix"; path: string; name: string } | { kind: "ws"; url: URL; name: string };

/** The default is the socket in the agent folder. */
export function parseAddress(address = `unix:${join(agentFolder(), "tiller.sock")}`): Address {
  const path = address.startsWith("unix:") ? address.slice("unix:".length) : "";
  if (path !== "") return { kind: "unix", path, name: address };
  const url = URL.canParse(address) ? new URL(address) : undefined;
  const isPlain = url?.search === "" && url.hash === "" && url.username === "";
  if (url?.protocol !== "ws:" || url.hostname === "" || !isPlain) {
    throw new ConnectFailed(`"${address}" is not an address: use unix:PATH or ws://HOST:PORT`);
  }
  return { kind: "ws", url, name: address };
}

/** The token for a WebSocket: the given one, or that of a file. */
export async function readToken(
  token: string | undefined,
  tokenFile = join(agentFolder(), "serve-token"),
): Promise<string> {
  if (token !== undefined) return token;
  try {
    return (await readFile(tokenFile, "utf8")).trim();
  } catch (thrown) {
    const { message } = toError(thrown);
    throw new ConnectFailed(`cannot read the token of the server: ${message}`, { cause: thrown });
  }
}

/** The folder in which tiller keeps settings, keys and sessions. */
function agentFolder(): string {
  const chosen = process.env["PI_CODING_AGENT_DIR"] ?? "";
  if (chosen.startsWith("~/")) return join(homedir(), chosen.slice(2));
  return chosen === "" ? join(homedir(), ".pi", "agent") : chosen;
}
