// The way to the host. Everything JavaScript has of the outside comes through the few functions
// here; they are taken out of the global object before any extension could see them, together
// with those of the language that a careless extension might replace.

const native = globalThis.__tillerHost;
delete globalThis.__tillerHost;

const { parse, stringify } = JSON;

export { native, parse, stringify };

/** Does something at once. */
export function sync(name, input, bytes) {
	return native.sync(name, input === undefined ? undefined : stringify(input), bytes);
}

const pending = new Map();

/** Begins something. Gives its promise and a way to give it up. */
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

/** Begins something and waits for its end. */
export function ask(name, input, bytes) {
	return begin(name, input, bytes).promise;
}

/** News of something that was begun: called by the host. */
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

/** Runs `work` in the name of an extension, so that the host knows whose work it is: also what
 * it goes on to do when `work` has returned. */
export function as(extension, work) {
	native.extension(extension.number);
	return work();
}

/** The same for a moment, inside the work of another. */
export function meanwhileAs(extension, work) {
	const before = native.extension(extension.number);
	try {
		return work();
	} finally {
		native.extension(before);
	}
}

export const facts = sync("facts");

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
