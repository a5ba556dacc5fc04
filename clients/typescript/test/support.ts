/** A folder, an environment and clients for one test. */

import assert from "node:assert/strict";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client, type Event, type EventName, type EventOf, type StartOptions } from "tiller-client";

/** No wait of a test is longer. A test that reaches it fails. */
export const MS = 60_000;
export const WAIT = { timeoutMs: MS };

/** The program under test, which `run-tests` names. */
export function tillerBin(): string {
  const program = process.env["TILLER_BIN"];
  assert(program !== undefined, "TILLER_BIN names no program: use run-tests");
  return program;
}

/** A folder that is also the home of the user. Disposal closes the clients and removes it. */
export class Place implements AsyncDisposable {
  readonly folder: string;
  readonly work: string;
  readonly env: NodeJS.ProcessEnv;
  readonly #clients: Client[] = [];

  private constructor(folder: string) {
    this.folder = folder;
    this.work = join(folder, "work");
    this.env = { PATH: process.env["PATH"], HOME: folder, PI_OFFLINE: "1" };
  }

  static async make(): Promise<Place> {
    const place = new Place(await realpath(await mkdtemp(join(tmpdir(), "tiller-client-"))));
    await mkdir(place.work);
    return place;
  }

  /** A file in the folder. Returns its path. */
  async file(name: string, text: string | Uint8Array): Promise<string> {
    const path = join(this.folder, name);
    await writeFile(path, text);
    return path;
  }

  /** A client of tiller with a scripted model. */
  async client(script: string, options: StartOptions = {}): Promise<Client> {
    const args = ["--script", await this.file("model.script", script), ...(options.args ?? [])];
    return this.start({ model: "tiller/script", ...options, args });
  }

  async start(options: StartOptions): Promise<Client> {
    const client = await Client.start({
      command: tillerBin(),
      cwd: this.work,
      env: this.env,
      timeoutMs: MS,
      startTimeoutMs: MS,
      ...options,
    });
    this.#clients.push(client);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) await client.close();
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Everything that a stream still has. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

/** The types of events, without the steps of answers. */
export function kinds(events: readonly Event[]): EventName[] {
  return events.map((event) => event.type).filter((type) => type !== "message_update");
}

/** The first event of this type. */
export async function until<K extends EventName>(
  events: AsyncIterable<Event>,
  type: K,
): Promise<EventOf<K>> {
  for await (const event of events) if (event.type === type) return event as EventOf<K>;
  return assert.fail(`the stream ended before ${type} came`);
}

/** The first piece of text has arrived. */
export async function firstText(texts: AsyncIterable<string>): Promise<string> {
  for await (const text of texts) return text;
  return assert.fail("the answer has no text");
}

/** The process has ended, and its exit code was collected. */
export function assertGone(pid: number | undefined): void {
  assert(pid !== undefined);
  assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
}

/** A place where a host tool waits until the test opens it. */
export class Gate {
  readonly entered: Promise<void>;
  #enter!: () => void;
  #open!: () => void;
  readonly #opened: Promise<void>;

  constructor() {
    this.entered = new Promise((resolve) => (this.#enter = resolve));
    this.#opened = new Promise((resolve) => (this.#open = resolve));
  }

  open(): void {
    this.#open();
  }

  async pass(): Promise<void> {
    this.#enter();
    await this.#opened;
  }
}
