/** A program that answers `hello` and then misbehaves as its first argument says. */

import { createInterface } from "node:readline";

const what = process.argv[2];
const granted = { promptResults: true, sequence: { epoch: "e" }, limits: { lineBytes: 1000 } };
const data = { server: "fake", version: "9", ...(what === "old" ? {} : granted) };

function write(record: object): void {
  process.stdout.write(`${JSON.stringify(record)}\n`);
}

const answers: Readonly<Record<string, (id: string) => void>> = {
  garbage: () => process.stdout.write("this is not json\n"),
  scalar: () => process.stdout.write("42\n"),
  untyped: () => process.stdout.write("{}\n"),
  malformed: (id) => {
    write({ id, type: "response", command: "prompt", success: true });
    write({ type: "message_end" });
  },
  unreadable: () => write({ type: "response", command: "parse", success: false, error: "no" }),
  unknown: () => write({ type: "later_invention", seq: 7 }),
};

let isGreeted = false;
createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { id, type } = JSON.parse(line) as { id: string; type: string };
    if (what === "silent") return;
    if (isGreeted && what !== "unknown") return answers[what ?? ""]?.(id);
    if (isGreeted) answers["unknown"]?.(id);
    isGreeted = true;
    write({ id, type: "response", command: type, success: true, data });
  })
  .on("close", () => {
    if (what !== "stubborn") process.exit(0);
  });

if (what === "stubborn") {
  process.on("SIGTERM", () => {});
  process.stderr.write("I stay\n");
  setInterval(() => {}, 60_000);
}
