// The host interface in a sidecar: provides `__tillerHost` for `js/runtime` over requests to tiller, and passes
// messages from tiller on to `js/runtime/main.js`.

import { AsyncLocalStorage } from "node:async_hooks";
import childProcess from "node:child_process";
import { createReadStream } from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";

import { lines } from "sidecar:lines";

const { send, request, read, end, messageFile } = globalThis.__tillerRequests;
delete globalThis.__tillerRequests;

/** The current task, a call and an extension, kept across `await`. */
const tasks = new AsyncLocalStorage();
const noTask = { call: 0, extension: 0 };
const paths = new Map();

function task() {
	const { call, extension } = tasks.getStore() ?? noTask;
	return [call, extension];
}

function operation(type, name, json, bytes) {
	return request({ type, name, json, bytes: bytes && Buffer.from(bytes).toString("base64"), task: task() });
}

/** A stack with paths instead of node's URLs. */
function withPaths(stack) {
	return stack?.replace(/file:\/\/[^\s?:)]+/g, (url) => {
		try {
			return fileURLToPath(url);
		} catch {
			return url;
		}
	});
}

function report(path, event, message, stack) {
	send({ type: "report", path, event, message, stack: withPaths(stack) });
}

const require = createRequire("/");

globalThis.__tillerHost = {
	sync: (name, json, bytes) => operation("sync", name, json, bytes),
	start: (name, json, bytes) => operation("start", name, json, bytes),
	cancel: (id) => send({ type: "cancel", id }),
	reply: (call, json) => send({ type: "reply", call, json }),
	fail: (call, message, stack) => send({ type: "fail", call, message, stack: withPaths(stack) }),
	progress: (call, json) => send({ type: "progress", call, json }),
	report,
	extension(number) {
		const { call, extension } = tasks.getStore() ?? noTask;
		if (number !== undefined && number !== extension) {
			tasks.enterWith({ call, extension: number });
			send({ type: "running", extension: number });
		}
		return extension;
	},
	clock: () => performance.now(),
	importNow: (id) => require(id),
	entry(path, number) {
		paths.set(number, path);
		return request({ type: "entry", path, number });
	},
};

const main = await import("tiller:main");

const handlers = {
	call({ id, entry, json }) {
		// Another session may have another folder.
		if (entry === "bind" || entry === "renew") changeFolder();
		main.call(id, entry, json);
	},
	emit: ({ json }) => main.emit(json),
	abort: ({ id }) => main.abort(id),
	runSignal: ({ signal }) => main.runSignal(signal),
	event: ({ id, output }) => main.deliver(id, "event", read(output)),
	done({ id, output }) {
		let value;
		try {
			value = read(output);
		} catch (error) {
			main.deliver(id, "failed", error);
			return;
		}
		main.deliver(id, "done", value);
	},
	ping() {},
};

function changeFolder() {
	try {
		process.chdir(request({ type: "sync", name: "query", json: '{"type":"cwd"}', task: task() }));
	} catch {
		// The folder may not exist; the old one stays.
	}
}

function handle(message) {
	const [call, extension] = message.task;
	tasks.run({ call, extension }, () => handlers[message.type](message));
}

function acknowledge(turn) {
	send({ type: "handled", turn });
}

// Each message gets its own turn, with the promise jobs that follow; then it is acknowledged. Bun
// cannot open a socket by its descriptor; a file would block one of node's few threads.
const messages = globalThis.Bun
	? createReadStream("", { fd: messageFile })
	: new Socket({ fd: messageFile, readable: true, writable: false });
messages.setEncoding("utf8");
messages.on("data", lines((line) => {
	const message = JSON.parse(line);
	setImmediate(handle, message);
	setImmediate(acknowledge, message.turn);
}));
messages.on("close", () => end(0));

// The extension an uncaught error belongs to. Such an error ends nothing.
function currentPath() {
	const { extension } = tasks.getStore() ?? noTask;
	return paths.get(extension) ?? (paths.size === 1 ? [...paths.values()][0] : "<runtime>");
}

const uncaught = (event) => (error) => {
	const message = typeof error?.message === "string" ? error.message : String(error);
	report(currentPath(), event, message, typeof error?.stack === "string" ? error.stack : undefined);
};
process.on("uncaughtException", uncaught("uncaught_exception"));
process.on("unhandledRejection", uncaught("unhandled_rejection"));

for (const name of ["exit", "abort", "reallyExit"]) {
	process[name] = () => {
		throw new Error(`process.${name}() is not available to extensions; ctx.shutdown() asks for the end`);
	};
}

// Time spent waiting for a synchronous child does not count for the extension.
for (const name of ["spawnSync", "execSync", "execFileSync"]) {
	const wait = childProcess[name];
	childProcess[name] = (...args) => {
		send({ type: "pause" });
		try {
			return wait(...args);
		} finally {
			send({ type: "resume" });
		}
	};
}
syncBuiltinESMExports?.();
