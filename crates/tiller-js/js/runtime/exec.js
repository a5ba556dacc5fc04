// `pi.exec`: runs a command without shell and input, and returns its output.

import { begin, query, sync } from "tiller:host";

const SIGTERM = 15;
const SIGKILL = 9;
const GRACE_MS = 5000;

/** Never rejects: a command that cannot be started has a failed result. */
export async function exec(command, args = [], { signal, timeout, cwd } = {}) {
	const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
	const output = { stdout: "", stderr: "" };
	let code = null;
	let killed = false;
	let child;
	let from;
	let last;
	const kill = () => {
		if (killed) return;
		killed = true;
		if (child === undefined) return;
		sync("child.kill", [child, SIGTERM]);
		last = setTimeout(() => sync("child.kill", [child, SIGKILL]), GRACE_MS);
	};
	const environment = Object.entries(globalThis.process.env).map(([name, value]) => [name, String(value)]);
	const request = {
		command: String(command),
		args: [...args].map(String),
		cwd: cwd ?? query("cwd"),
		env: environment,
		stdin: false,
	};
	const { promise } = begin("child.spawn", request, undefined, (event) => {
		if (typeof event === "string") {
			from = event;
		} else if (event instanceof Uint8Array) {
			output[from] += decoders[from].decode(event, { stream: true });
			sync("child.read", [child, event.length]);
		} else if (event.id !== undefined) {
			child = event.id;
			if (killed) {
				killed = false;
				kill();
			}
		} else {
			code = event.code;
		}
	});
	const timer = timeout > 0 ? setTimeout(kill, timeout) : undefined;
	if (signal?.aborted) kill();
	signal?.addEventListener("abort", kill, { once: true });
	try {
		await promise;
	} catch (error) {
		return { stdout: output.stdout, stderr: output.stderr || error.message, code: 1, killed };
	} finally {
		clearTimeout(timer);
		clearTimeout(last);
		signal?.removeEventListener("abort", kill);
		if (child !== undefined) sync("child.forget", child);
	}
	return { ...output, code: code ?? 0, killed };
}

