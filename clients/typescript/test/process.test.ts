/** The start and the end of the process, and servers that misbehave. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm, writeFile } from "node:fs/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import {
  Client,
  ClientClosed,
  ProtocolError,
  ServerExited,
  ServerNotFound,
  type StartOptions,
  Timeout,
} from "tiller-client";

import { all, assertGone, firstText, Place, tillerBin, until, WAIT } from "./support.js";

const FAKE = fileURLToPath(new URL("./fake-server.js", import.meta.url));

function fake(place: Place, what: string, options: StartOptions = {}): Promise<Client> {
  // The arguments of tiller follow, which the fake ignores.
  return place.start({ command: [process.execPath, FAKE, what], env: process.env, ...options });
}

test("close ends the process", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say hi\n");
  const { pid } = tiller;
  await Promise.all([tiller.close(), tiller.close()]);
  assertGone(pid);
  await assert.rejects(tiller.getState(), ClientClosed);
  await assert.rejects(tiller.prompt("Hi").result(), ClientClosed);
  assert.deepEqual(await all(tiller.events()), []);
});

test("close during a run delivers its end", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say I go on\nhang\n");
  const stream = tiller.events();
  const turn = tiller.prompt("Go");
  await firstText(turn.textStream());
  await tiller.close();
  const { status, reason } = await turn.result(WAIT);
  assert.deepEqual([status, reason], ["aborted", "shutdown"]);
  assert.equal((await all(stream)).at(-1)?.type, "agent_settled");
});

test("disposal ends the process after an error", async () => {
  await using place = await Place.make();
  let pid: number | undefined;
  const failing = async (): Promise<void> => {
    await using tiller = await place.client("hang\n");
    pid = tiller.pid;
    await tiller.prompt("Go").accepted;
    throw new RangeError("of the program");
  };
  await assert.rejects(failing, RangeError);
  assertGone(pid);
});

test("a killed server fails everything that is pending", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say I go on\nhang\n");
  const { pid } = tiller;
  assert(pid !== undefined);
  const stream = tiller.events();
  const turn = tiller.prompt("Go");
  const shell = tiller.bash("sleep 600");
  await firstText(turn.textStream());
  process.kill(pid, "SIGKILL");
  const waits = [shell, all(turn), all(stream), turn.result(WAIT)];
  for (const wait of [...waits, shell.catch(() => tiller.getState())]) {
    await assert.rejects(wait, (error) => {
      assert(error instanceof ServerExited);
      assert.deepEqual([error.exitCode, error.signal], [null, "SIGKILL"]);
      return true;
    });
  }
  assertGone(pid);
});

test("a bad command line is explained", async () => {
  await using place = await Place.make();
  await assert.rejects(place.client("say hi\n", { args: ["--no-such-option"] }), (error) => {
    assert(error instanceof ServerExited);
    assert.equal(error.exitCode, 2);
    assert.match(error.stderrTail, /--no-such-option/);
    assert.match(error.message, /tiller exited with 2: .*--no-such-option/s);
    return true;
  });
});

test("a missing program is explained", async () => {
  const missing = Client.start({ command: "/no/such/tiller" });
  await assert.rejects(missing, ServerNotFound);
  await assert.rejects(missing, /cannot start \/no\/such\/tiller: .*ENOENT/);
});

test("an old server is refused", async () => {
  await using place = await Place.make();
  await assert.rejects(fake(place, "old"), {
    name: "ProtocolError",
    message: "this client needs a newer tiller: fake 9 has no promptResults and no sequence",
  });
});

test("a silent server is refused in time", async () => {
  await using place = await Place.make();
  await assert.rejects(fake(place, "silent", { startTimeoutMs: 50 }), Timeout);
});

const JUNK: readonly (readonly [string, RegExp])[] = [
  ["garbage", /not JSON: this is not json/],
  ["scalar", /not a record: 42/],
  ["untyped", /not a record: \{\}/],
  ["malformed", /cannot handle a record of tiller/],
  ["unreadable", /could not read a command: no/],
];

for (const [what, message] of JUNK) {
  test(`a server that writes ${what} records fails the request`, async () => {
    await using place = await Place.make();
    const tiller = await fake(place, what);
    const turn = tiller.prompt("Hi");
    const stream = all(tiller.events());
    for (const wait of [turn.result(WAIT), all(turn), stream]) {
      await assert.rejects(
        wait,
        (error) => error instanceof ProtocolError && message.test(error.message),
      );
    }
    await tiller.close();
    assertGone(tiller.pid);
  });
}

test("a server that closes stdout has ended", async () => {
  await using place = await Place.make();
  // A shell, because bun keeps a second descriptor of its stdout.
  const program = String.raw`
    read line
    id=$(echo "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')
    data='{"promptResults":true,"sequence":{"epoch":"e"}}'
    echo '{"id":"'$id'","type":"response","command":"hello","success":true,"data":'$data'}'
    read line
    exec >&-
    cat >/dev/null
  `;
  const tiller = await place.start({ command: ["sh", "-c", program] });
  await assert.rejects(tiller.getState(), ServerExited);
});

test("unknown records are passed on", async () => {
  await using place = await Place.make();
  const tiller = await fake(place, "unknown");
  const stream = tiller.events(WAIT);
  await tiller.getState();
  const { value } = await stream.next();
  assert.equal((value as { type: string } | undefined)?.type, "later_invention");
  assert.equal(tiller.lastSeq, 7);
});

test("a line that is too long for tiller is refused", async () => {
  await using place = await Place.make();
  const tiller = await fake(place, "unknown");
  const long = tiller.prompt("x".repeat(1000));
  await assert.rejects(
    long.result(WAIT),
    /prompt: the line has .* bytes, and tiller reads at most 1000/,
  );
});

test("a server that does not end is killed", async () => {
  await using place = await Place.make();
  const tiller = await fake(place, "stubborn", { closeMs: 50, terminateMs: 50 });
  await tiller.close();
  assertGone(tiller.pid);
  assert.equal(tiller.stderrTail, "I stay\n");
});

const noProc = process.platform === "linux" ? false : "this system has no /proc";

test("a killed host leaves no process", { skip: noProc }, async () => {
  await using place = await Place.make();
  const program = `
    import { Client } from "tiller-client";
    const command = ${JSON.stringify(tillerBin())};
    const tiller = await Client.start({ command, model: "tiller/demo", args: ["--no-session"] });
    console.log(tiller.pid);
    process.stdin.resume();
  `;
  const path = fileURLToPath(new URL(`./host-${process.pid}.js`, import.meta.url));
  await writeFile(path, program);
  try {
    const stdio: ["pipe", "pipe", "inherit"] = ["pipe", "pipe", "inherit"];
    const host = spawn(process.execPath, [path], { env: place.env, stdio });
    const [line] = (await once(host.stdout, "data")) as [Buffer];
    const pid = Number(line.toString());
    assert(pid > 0);
    host.kill("SIGKILL");
    await once(host, "exit");
    await gone(pid);
  } finally {
    await rm(path);
  }
});

/** Waits until a process that is not a child of this one has ended; a zombie has ended, too. */
async function gone(pid: number): Promise<void> {
  for (let tries = 0; tries < 1200; tries += 1) {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
    if (stat === undefined || /\) [ZX] /.test(stat)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`process ${pid} does not end`);
}

test("a stream that is left ends for its consumer only", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say one\n");
  const left = tiller.events(WAIT);
  const other = tiller.events(WAIT);
  const turn = tiller.prompt("Go");
  await until(left, "agent_start");
  await until(other, "agent_settled");
  assert.deepEqual(await all(left), []);
  assert.equal((await turn.result(WAIT)).status, "done");
});
