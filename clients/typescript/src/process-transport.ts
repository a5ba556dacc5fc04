/** A tiller process: lines over its stdin and stdout, and its end. */

import { spawn, type ChildProcessByStdio } from "node:child_process";
import type { Readable, Writable } from "node:stream";

import { ServerExited, ServerNotFound, type TillerError } from "./errors.js";
import { LineSplitter } from "./line-splitter.js";
import type { Transport, TransportHandlers } from "./transport.js";
import { settlesWithin } from "./waiting.js";

export interface ProcessOptions {
  /** The program, looked up in `PATH` unless it is a path, and its arguments. */
  command: readonly [string, ...string[]];
  /** The working directory of the process. */
  cwd?: string | undefined;
  /** The environment, as in `child_process`. Default: that of this process. */
  env?: NodeJS.ProcessEnv | undefined;
  /** How long `close` waits after the end of stdin before it sends SIGTERM. Default: 5,000. */
  closeMs?: number | undefined;
  /** How long the process may take after SIGTERM before it gets SIGKILL. Default: 5,000. */
  terminateMs?: number | undefined;
}

/** How much of stderr is kept for errors, in characters. */
const STDERR_TAIL = 8 * 1024;
/** How long output may follow the exit. Another process can hold the pipes open for ever. */
const DRAIN_MS = 2000;

export class ProcessTransport implements Transport {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #program: string;
  readonly #closeMs: number;
  readonly #terminateMs: number;
  readonly #exited: Promise<void>;
  /** Resolves when the exit has been reported. */
  readonly #ended: Promise<void>;
  #stderrTail = "";
  #handlers: TransportHandlers | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: ProcessOptions) {
    const [program, ...args] = options.command;
    this.#program = program;
    this.#closeMs = options.closeMs ?? 5000;
    this.#terminateMs = options.terminateMs ?? 5000;
    const child = spawn(program, args, {
      cwd: options.cwd,
      env: options.env ?? process.env,
      stdio: ["pipe", "pipe", "pipe"],
      // Its own session: Ctrl-C in the host's terminal is the host's business. If the host is
      // killed, stdin closes, and tiller ends by itself.
      detached: process.platform !== "win32",
    });
    this.#child = child;

    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (text: string) => {
      this.#stderrTail = (this.#stderrTail + text).slice(-STDERR_TAIL);
    });
    // A broken pipe shows that the process has ended, which `exit` reports with its reason.
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.on("error", () => {});

    const drained = new Promise<void>((resolve) => child.once("close", () => resolve()));
    let failure: Error | undefined;
    this.#exited = new Promise((resolve) => {
      child.once("exit", () => resolve());
      // If the program cannot be started, there is no `exit`.
      child.once("error", (error) => {
        failure = error;
        if (child.pid === undefined) resolve();
      });
    });
    this.#ended = this.#exited.then(async () => {
      child.stdout.resume();
      if (child.pid !== undefined) await settlesWithin(drained, DRAIN_MS);
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      this.#handlers?.onClosed(this.#endOf(failure));
    });
  }

  /** The id of the process; `undefined` if it could not be started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** The end of what the process wrote to stderr. */
  get stderrTail(): string {
    return this.#stderrTail;
  }

  open(handlers: TransportHandlers): void {
    this.#handlers = handlers;
    const lines = new LineSplitter((line) => handlers.onLine(line));
    this.#child.stdout.on("data", (chunk: Buffer) => lines.push(chunk));
    this.#child.stdout.once("end", () => {
      lines.end();
      // A server that writes no more is of no use.
      void this.close();
    });
  }

  async send(line: string): Promise<void> {
    const { stdin } = this.#child;
    if (!stdin.writable || stdin.write(`${line}\n`)) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        stdin.off("drain", done);
        stdin.off("close", done);
        resolve();
      };
      stdin.on("drain", done);
      stdin.on("close", done);
    });
  }

  pause(): void {
    if (this.#closing === undefined) this.#child.stdout.pause();
  }

  resume(): void {
    this.#child.stdout.resume();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const child = this.#child;
    child.stdin.end();
    // The process may have to write before it can end.
    child.stdout.resume();
    if (!(await settlesWithin(this.#exited, this.#closeMs))) {
      child.kill("SIGTERM");
      if (!(await settlesWithin(this.#exited, this.#terminateMs))) child.kill("SIGKILL");
    }
    await this.#ended;
  }

  #endOf(failure: Error | undefined): TillerError {
    const { exitCode, signalCode, pid } = this.#child;
    if (pid !== undefined) return new ServerExited(exitCode, signalCode, this.#stderrTail);
    const why = failure?.message ?? "unknown reason";
    return new ServerNotFound(`cannot start ${this.#program}: ${why}`, { cause: failure });
  }
}
