// The interface to the host. JavaScript reaches the host only through the functions here; they are removed
// from the global object before any extension is loaded. Built-ins of the language that an extension might
// replace are saved here as well.

const native = globalThis.__tillerHost;
delete globalThis.__tillerHost;

const { parse, stringify } = JSON;

export { native, parse, stringify };

/** Runs a synchronous operation. */
export function sync(name, input, bytes) {
	return native.sync(name, input === undefined ? undefined : stringify(input), bytes);
}

const pending = new Map();

/** Starts an operation. Returns its promise and a function that cancels it. */
export function begin(name, input, bytes, onEvent) {
	const id = native.start(name, input === undefined ? undefined : stringify(input), bytes);
	const promise = new Promise((resolve, reject) => {
		pending.set(id, { resolve, reject, onEvent });
	});
	const cancel = () => {
		pending.delete(id);
		native.cancel(id);
	};
	return { promise, cancel };
}

/** Starts an operation and awaits its result. */
export function ask(name, input, bytes) {
	return begin(name, input, bytes).promise;
}

/** Called by the host with an event or the result of an operation. */
export function deliver(id, kind, value) {
	const waiting = pending.get(id);
	if (!waiting) return;
	if (kind === "event") {
		waiting.onEvent?.(value);
		return;
	}
	pending.delete(id);
	if (kind === "done") waiting.resolve(value);
	else waiting.reject(value);
}

/** Runs `work` on behalf of an extension, including the jobs that follow from it, so that the host can
 * attribute errors and time limits. */
export function runAs(extension, work) {
	native.extension(extension.number);
	return work();
}

/** The same for a nested call inside another extension's work. */
export function runNestedAs(extension, work) {
	const before = native.extension(extension.number);
	try {
		return work();
	} finally {
		native.extension(before);
	}
}

export const hostInfo = sync("hostInfo");

export function query(type, more) {
	return sync("query", { type, ...more });
}

export function act(type, more) {
	sync("act", { type, ...more });
}

export function request(type, more) {
	return ask("request", { type, ...more });
}

export function log(level, text) {
	sync("log", { level, text: String(text).toWellFormed() });
}
