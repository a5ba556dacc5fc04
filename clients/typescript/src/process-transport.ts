/** A server as a child process: lines over its stdin and stdout. */

import { spawn, type ChildProcessByStdio } from "node:child_process";
import type { Readable, Writable } from "node:stream";

import { type ServerExit, ServerExitedError, type TillerError } from "./errors.js";
import { LineSplitter } from "./line-splitter.js";
import type { Transport, TransportHandlers } from "./transport.js";

export interface ProcessOptions {
  /** The program; looked up in `PATH` unless it is a path. */
  command: string;
  args: readonly string[];
  /** The working directory of the process. */
  cwd?: string | undefined;
  /** Variables in addition to those of this process; `undefined` removes one. */
  env?: Readonly<Record<string, string | undefined>> | undefined;
  /** How long `close` waits after the end of stdin before it sends SIGTERM, in milliseconds. */
  closeGraceMs: number;
}

/** How much of stderr is kept for errors, in characters. */
const STDERR_TAIL = 8192;
/** How long a process may take after SIGTERM before it gets SIGKILL. */
const TERM_GRACE_MS = 2000;
/** How long output may follow the exit. A grandchild can hold the pipes open for ever. */
const DRAIN_MS = 500;

export class ProcessTransport implements Transport {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #command: string;
  readonly #closeGraceMs: number;
  readonly #exited: Promise<void>;
  /** Resolves when the exit has been reported. */
  readonly #ended: Promise<void>;
  #stderr = "";
  #handlers: TransportHandlers | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: ProcessOptions) {
    this.#command = options.command;
    this.#closeGraceMs = options.closeGraceMs;
    const child = spawn(options.command, [...options.args], {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child = child;

    // The tail of stderr is read also before `open`, so that the process never waits for it.
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_TAIL);
    });
    // A broken pipe shows that the process has ended, which `exit` reports with its reason.
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.on("error", () => {});

    const outputEnded = new Promise<void>((resolve) => child.once("close", () => resolve()));
    let failure: Error | undefined;
    this.#exited = new Promise((resolve) => {
      child.once("exit", () => resolve());
      // The program was not found or may not be run: there is no `exit`.
      child.once("error", (error) => {
        failure = error;
        if (child.pid === undefined) resolve();
      });
    });
    this.#ended = this.#exited.then(async () => {
      if (child.pid !== undefined) await settlesWithin(outputEnded, DRAIN_MS);
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      this.#handlers?.onClosed(this.#exitError(failure));
    });
  }

  /** The id of the process; `undefined` if it could not be started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  open(handlers: TransportHandlers): void {
    this.#handlers = handlers;
    const lines = new LineSplitter((line) => handlers.onLine(line));
    this.#child.stdout.on("data", (chunk: Buffer) => lines.push(chunk));
    this.#child.stdout.once("end", () => lines.end());
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

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#child.stdin.end();
    if (!(await settlesWithin(this.#exited, this.#closeGraceMs))) {
      this.#child.kill("SIGTERM");
      if (!(await settlesWithin(this.#exited, TERM_GRACE_MS))) this.#child.kill("SIGKILL");
    }
    await this.#ended;
  }

  #exitError(failure: Error | undefined): TillerError {
    const { exitCode, signalCode, pid } = this.#child;
    const exit: ServerExit = { exitCode, signal: signalCode, stderr: this.#stderr };
    if (pid === undefined) {
      const options = failure === undefined ? undefined : { cause: failure };
      const why = failure === undefined ? "unknown reason" : failure.message;
      const never: ServerExit = { ...exit, exitCode: null };
      return new ServerExitedError(`cannot start ${this.#command}: ${why}`, never, options);
    }
    const how = signalCode === null ? `with code ${exitCode}` : `by signal ${signalCode}`;
    return new ServerExitedError(`${this.#command} has exited ${how}`, exit);
  }
}

/** Whether the promise settles in time. Leaves no timer behind. */
async function settlesWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([promise.then(() => true), timeout]);
  } finally {
    clearTimeout(timer);
  }
}
