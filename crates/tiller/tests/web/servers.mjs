// The server under test: the fake one, `tiller serve --web`, or one that runs already.
//
//   TILLER_BIN=PATH        the program for the sessions of the fake server
//   TILLER_SERVE=PATH      test `PATH serve --web` instead of the fake server
//   TILLER_WEB_ADDRESS=ws://127.0.0.1:PORT with TILLER_WEB_TOKEN: test a server that runs; tests
//   that choose its script, or kill it, are skipped

import { spawn } from "node:child_process";
import { connect, createServer } from "node:net";
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const START_LIMIT = 30_000;
export const runsAlready = !!process.env.TILLER_WEB_ADDRESS;

/** A server with a home and a project folder of its own. */
export class Server {
  #child = null;
  #port = 0;
  #args;
  #token = "token-of-the-tests";
  #proxy = null;
  folder;
  project;

  /** `script` is the text of a script for `tiller/script`, `files` are those of the project, `args` further options for the sessions. */
  static async start({ script, files = {}, args = [] } = {}) {
    const server = new Server();
    server.folder = await realpath(await mkdtemp(join(tmpdir(), "tiller-web-")));
    server.project = join(server.folder, "project");
    await mkdir(join(server.folder, "home"), { recursive: true });
    await mkdir(server.project, { recursive: true });
    for (const [name, text] of Object.entries(files)) await server.write(name, text);
    server.#args = [...args];
    if (script !== undefined) {
      await writeFile(join(server.folder, "model.script"), script);
      server.#args.push("--model", "tiller/script", "--script", join(server.folder, "model.script"));
    }
    if (runsAlready) {
      server.#port = Number(new URL(process.env.TILLER_WEB_ADDRESS).port);
      server.#token = process.env.TILLER_WEB_TOKEN;
    } else {
      await server.restart();
    }
    return server;
  }

  async write(name, text) {
    const path = join(this.project, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }

  read(name) {
    return readFile(join(this.project, name), "utf8");
  }

  /** The address of the page, with the token. */
  get address() {
    return `http://127.0.0.1:${this.#port}/#token=${this.#token}`;
  }

  /** The same through a proxy whose connections `cut` ends. */
  get proxyAddress() {
    return `http://127.0.0.1:${this.#proxy.port}/#token=${this.#token}`;
  }

  get token() {
    return this.#token;
  }

  /** Starts the server, at the port that it had before. */
  async restart() {
    const env = { ...process.env, HOME: join(this.folder, "home"), PI_CODING_AGENT_DIR: join(this.folder, "home/.pi/agent") };
    const port = String(this.#port);
    const [program, args] = process.env.TILLER_SERVE
      ? [process.env.TILLER_SERVE, ["serve", "--listen", `ws://127.0.0.1:${port}`, "--web", "--token-file", join(this.folder, "token"), "--", ...this.#args]]
      : [process.execPath, [join(HERE, "fake-server.mjs"), "--tiller", process.env.TILLER_BIN, "--port", port, "--token", this.#token, "--", ...this.#args]];
    if (process.env.TILLER_SERVE) await writeFile(join(this.folder, "token"), `${this.#token}\n`, { mode: 0o600 });
    const child = spawn(program, args, { cwd: this.project, env, stdio: ["ignore", "pipe", "inherit"] });
    this.#child = child;
    const address = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("the server does not start")), START_LIMIT);
      let text = "";
      child.stdout.setEncoding("utf8").on("data", (data) => {
        text += data;
        const line = text.split("\n").slice(0, -1).find((line) => line.includes('"listening"'));
        if (!line) return;
        clearTimeout(timer);
        resolve(JSON.parse(line).address);
      });
      child.on("exit", (code) => reject(new Error(`the server has ended with ${code}`)));
      child.on("error", reject);
    });
    this.#port = Number(new URL(address).port);
  }

  /** Ends the server without a warning. */
  async kill() {
    const child = this.#child;
    this.#child = null;
    const exit = new Promise((resolve) => child.on("exit", resolve));
    child.kill("SIGKILL");
    await exit;
  }

  /** Starts a proxy for this server. */
  async startProxy() {
    const sockets = new Set();
    const proxy = createServer((inner) => {
      if (this.#proxy?.down) return inner.destroy();
      const outer = connect(this.#port, "127.0.0.1");
      for (const [from, to] of [[inner, outer], [outer, inner]]) {
        sockets.add(from);
        from.on("error", () => to.destroy()).on("close", () => {
          sockets.delete(from);
          to.destroy();
        });
        from.on("data", (data) => {
          if (from === outer || !this.#proxy.swallows) to.write(data);
        });
      }
    });
    await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    this.#proxy = { proxy, sockets, port: proxy.address().port, down: false, swallows: false };
  }

  /** Ends all connections through the proxy; until `mend`, there are no new ones. */
  cut() {
    this.#proxy.down = true;
    for (const socket of this.#proxy.sockets) socket.destroy();
  }

  mend() {
    this.#proxy.down = this.#proxy.swallows = false;
  }

  /** From now on, nothing that the page sends arrives. */
  swallow() {
    this.#proxy.swallows = true;
  }

  async stop() {
    if (this.#child) await this.kill();
    this.#proxy?.proxy.close();
    for (const socket of this.#proxy?.sockets ?? []) socket.destroy();
    // Processes of sessions may write for a moment after their server.
    await rm(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}
