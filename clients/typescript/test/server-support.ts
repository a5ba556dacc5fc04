/** Servers of many sessions for tests: the fake one, and `tiller serve` if the program has it. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile } from "node:fs/promises";
import { createConnection, createServer, type AddressInfo, type Server as NetServer, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { type OpenOptions, Server, type ServerOptions, type Session } from "tiller-client";

import { FakeServer } from "./fake-sessions.js";
import { MS, Place, tillerBin } from "./support.js";

const QUESTION = `
export default function (pi) {
  pi.registerCommand("ask", {
    description: "Ask",
    handler: async (args, ctx) => {
      const answer = await ctx.ui.select("Which?", ["red", "green"]);
      ctx.ui.notify(JSON.stringify(answer ?? null), "info");
    },
  });
}
`;

/** Whether the program under test has `serve`. Without it the word is a message to a model. */
export const hasServe = ((): boolean => {
  const { status, stdout } = spawnSync(tillerBin(), ["serve", "--help"], { encoding: "utf8" });
  return status === 0 && stdout.includes("--listen");
})();

export type ServerKind = "fake" | "real";
export type SocketKind = "unix" | "ws";

/** The combinations in which a scenario is run. */
export const KINDS: readonly (readonly [ServerKind, SocketKind])[] = [
  ["fake", "unix"],
  ["fake", "ws"],
  ["real", "unix"],
  ["real", "ws"],
];

interface Running extends AsyncDisposable {
  readonly unix: string;
  readonly ws: string;
  readonly token: string;
  stop(): Promise<void>;
}

/** A process of `tiller serve`. */
class RealServer implements Running {
  unix = "";
  ws = "";
  token = "";
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(place: Place, script: string): Promise<RealServer> {
    const agent = join(place.folder, ".pi", "agent");
    await mkdir(agent, { recursive: true });
    const model = await place.file("model.script", script === "" ? "say Hello.\n" : script);
    const extension = await place.file("question.ts", QUESTION);
    const listen = ["--listen", `unix:${join(agent, "tiller.sock")}`];
    const args = ["serve", ...listen, "--listen", "ws://127.0.0.1:0"];
    const child = spawn(tillerBin(), [...args, "--", "--script", model, "-e", extension], {
      cwd: place.folder,
      env: place.env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const server = new RealServer(child);
    assert(child.stdout);
    for await (const line of createInterface({ input: child.stdout })) {
      const { address } = JSON.parse(line) as { address: string };
      if (address.startsWith("unix:")) server.unix = address;
      else server.ws = address;
      if (server.unix !== "" && server.ws !== "") break;
    }
    assert(server.ws !== "", "tiller serve did not get ready");
    server.token = (await readFile(join(agent, "serve-token"), "utf8")).trim();
    return server;
  }

  /** Ends the server in order. */
  stop(): Promise<void> {
    return this.#end("SIGTERM");
  }

  /** Ends the server at once, which takes less time. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#end("SIGKILL");
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  }
}

/** A server with its folder. Disposal ends the connections, the server and removes the folder. */
export class ServerPlace implements AsyncDisposable {
  readonly place: Place;
  readonly running: Running;
  readonly #kind: SocketKind;
  readonly #ends: (() => Promise<void>)[] = [];

  private constructor(place: Place, running: Running, kind: SocketKind) {
    this.place = place;
    this.running = running;
    this.#kind = kind;
  }

  static async make(server: ServerKind, socket: SocketKind, script = ""): Promise<ServerPlace> {
    const place = await Place.make();
    const running =
      server === "real"
        ? await RealServer.start(place, script)
        : await FakeServer.start(place.folder, script);
    return new ServerPlace(place, running, socket);
  }

  get address(): string {
    return this.#kind === "unix" ? this.running.unix : this.running.ws;
  }

  get fake(): FakeServer {
    assert(this.running instanceof FakeServer);
    return this.running;
  }

  async connect(options: ServerOptions = {}, address = this.address): Promise<Server> {
    const { token } = this.running;
    const limits = { timeoutMs: MS, startTimeoutMs: MS };
    const server = await Server.connect(address, { token, ...limits, ...options });
    this.#ends.push(() => server.close());
    return server;
  }

  session(server: Server, options: OpenOptions = {}): Promise<Session> {
    return server.openSession({ cwd: this.place.work, model: "tiller/script", ...options });
  }

  /** A socket between a client and the server, whose connections the test can cut. */
  async relay(): Promise<Relay> {
    const relay = await Relay.start(this.place.folder, this.address);
    this.#ends.push(() => relay.close());
    return relay;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#ends) await end();
    await this.running[Symbol.asyncDispose]();
    await this.place[Symbol.asyncDispose]();
  }
}

export class Relay {
  readonly address: string;
  readonly #server: NetServer;
  readonly #sockets: Set<Socket>;

  private constructor(address: string, server: NetServer, sockets: Set<Socket>) {
    this.address = address;
    this.#server = server;
    this.#sockets = sockets;
  }

  static async start(folder: string, target: string): Promise<Relay> {
    const isUnix = target.startsWith("unix:");
    const path = join(folder, "relay.sock");
    const sockets = new Set<Socket>();
    const server = createServer((client) => {
      const url = isUnix ? undefined : new URL(target);
      const upstream =
        url === undefined
          ? createConnection(target.slice("unix:".length))
          : createConnection(Number(url.port), url.hostname);
      for (const [one, other] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        sockets.add(one);
        one.on("error", () => {});
        one.on("data", (data) => other.write(data));
        one.on("close", () => other.destroy());
      }
    });
    if (isUnix) server.listen(path);
    else server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = isUnix
      ? `unix:${path}`
      : `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return new Relay(address, server, sockets);
  }

  /** Ends all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Waits until the server says so. The condition sends a command, which paces the loop. */
export async function eventually(condition: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + MS;
  while (!(await condition())) assert(Date.now() < deadline, "the condition does not come true");
}
