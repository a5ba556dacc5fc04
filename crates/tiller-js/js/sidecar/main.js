// The host interface in a sidecar: provides `__tillerHost` for `js/runtime` over the line to tiller, and
// passes messages from tiller on to `js/runtime/main.js`.

import { AsyncLocalStorage } from "node:async_hooks";
import childProcess from "node:child_process";
import { createReadStream } from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";

import { lines } from "sidecar:lines";

const { say, ask, read, end, newsFile } = globalThis.__tillerLine;
delete globalThis.__tillerLine;

/** The current task, a call and an extension, kept across `await`. */
const tasks = new AsyncLocalStorage();
const noTask = { call: 0, extension: 0 };
const paths = new Map();

function task() {
	const { call, extension } = tasks.getStore() ?? noTask;
	return [call, extension];
}

function operation(type, name, json, bytes) {
	return ask({ type, name, json, bytes: bytes && Buffer.from(bytes).toString("base64"), task: task() });
}

/** A stack with paths instead of node's URLs. */
function plain(stack) {
	return stack?.replace(/file:\/\/[^\s?:)]+/g, (url) => {
		try {
			return fileURLToPath(url);
		} catch {
			return url;
		}
	});
}

function report(path, event, message, stack) {
	say({ type: "report", path, event, message, stack: plain(stack) });
}

const require = createRequire("/");

globalThis.__tillerHost = {
	sync: (name, json, bytes) => operation("sync", name, json, bytes),
	start: (name, json, bytes) => operation("start", name, json, bytes),
	cancel: (id) => say({ type: "cancel", id }),
	reply: (call, json) => say({ type: "reply", call, json }),
	fail: (call, message, stack) => say({ type: "fail", call, message, stack: plain(stack) }),
	progress: (call, json) => say({ type: "progress", call, json }),
	report,
	extension(number) {
		const { call, extension } = tasks.getStore() ?? noTask;
		if (number !== undefined && number !== extension) {
			tasks.enterWith({ call, extension: number });
			say({ type: "as", extension: number });
		}
		return extension;
	},
	clock: () => performance.now(),
	importNow: (id) => require(id),
	entry(path, number) {
		paths.set(number, path);
		return ask({ type: "entry", path, number });
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
	runSignal: ({ word }) => main.runSignal(word),
	event: ({ id, given }) => main.deliver(id, "event", read(given)),
	done({ id, given }) {
		let value;
		try {
			value = read(given);
		} catch (error) {
			main.deliver(id, "failed", error);
			return;
		}
		main.deliver(id, "done", value);
	},
	nudge() {},
};

function changeFolder() {
	try {
		process.chdir(ask({ type: "sync", name: "query", json: '{"type":"cwd"}', task: task() }));
	} catch {
		// The folder may not exist; the old one stays.
	}
}

function handle(news) {
	const [call, extension] = news.task;
	tasks.run({ call, extension }, () => handlers[news.type](news));
}

function acknowledge(turn) {
	say({ type: "took", turn });
}

// Each message gets its own turn, with the promise jobs that follow; then tiller is told that it is done. Bun
// cannot open a socket by its descriptor; a file would block one of node's few threads.
const news = globalThis.Bun
	? createReadStream("", { fd: newsFile })
	: new Socket({ fd: newsFile, readable: true, writable: false });
news.setEncoding("utf8");
news.on("data", lines((line) => {
	const news = JSON.parse(line);
	setImmediate(handle, news);
	setImmediate(acknowledge, news.turn);
}));
news.on("close", () => end(0));

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
		say({ type: "pause" });
		try {
			return wait(...args);
		} finally {
			say({ type: "resume" });
		}
	};
}
syncBuiltinESMExports?.();
