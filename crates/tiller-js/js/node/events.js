// `EventEmitter`.

function checked(listener) {
	if (typeof listener === "function") return listener;
	const error = new TypeError(`The "listener" argument must be of type function. Received ${listener === null ? "null" : typeof listener}`);
	error.code = "ERR_INVALID_ARG_TYPE";
	throw error;
}

export const errorMonitor = Symbol("events.errorMonitor");
export const captureRejectionSymbol = Symbol.for("nodejs.rejection");
export const defaultMaxListeners = 10;

export function EventEmitter() {
	this._events ??= new Map();
}

function listOf(emitter, name) {
	emitter._events ??= new Map();
	return emitter._events.get(name) ?? [];
}

function add(emitter, name, listener, { first = false, once = false } = {}) {
	checked(listener);
	const list = listOf(emitter, name);
	if (emitter._events.has("newListener") && name !== "newListener") emitter.emit("newListener", name, listener);
	const entry = { listener, once };
	emitter._events.set(name, first ? [entry, ...list] : [...list, entry]);
	return emitter;
}

Object.assign(EventEmitter.prototype, {
	on(name, listener) {
		return add(this, name, listener);
	},
	addListener(name, listener) {
		return add(this, name, listener);
	},
	prependListener(name, listener) {
		return add(this, name, listener, { first: true });
	},
	once(name, listener) {
		return add(this, name, listener, { once: true });
	},
	prependOnceListener(name, listener) {
		return add(this, name, listener, { first: true, once: true });
	},
	off(name, listener) {
		const list = listOf(this, name);
		const place = list.findLastIndex((entry) => entry.listener === listener || entry.listener.listener === listener);
		if (place < 0) return this;
		const rest = list.toSpliced(place, 1);
		if (rest.length > 0) this._events.set(name, rest);
		else this._events.delete(name);
		if (this._events.has("removeListener")) this.emit("removeListener", name, listener);
		return this;
	},
	removeListener(name, listener) {
		return this.off(name, listener);
	},
	removeAllListeners(name) {
		this._events ??= new Map();
		if (name === undefined) this._events.clear();
		else this._events.delete(name);
		return this;
	},
	emit(name, ...args) {
		const list = listOf(this, name);
		if (name === "error") {
			for (const { listener } of listOf(this, errorMonitor)) listener.apply(this, args);
			if (list.length === 0) {
				if (args[0] instanceof Error) throw args[0];
				const error = new Error(`Unhandled error. (${String(args[0])})`);
				error.code = "ERR_UNHANDLED_ERROR";
				error.context = args[0];
				throw error;
			}
		}
		for (const entry of list) {
			if (entry.once) {
				const now = listOf(this, name);
				const place = now.indexOf(entry);
				if (place < 0) continue;
				const rest = now.toSpliced(place, 1);
				if (rest.length > 0) this._events.set(name, rest);
				else this._events.delete(name);
			}
			entry.listener.apply(this, args);
		}
		return list.length > 0;
	},
	listeners(name) {
		return listOf(this, name).map((entry) => entry.listener);
	},
	rawListeners(name) {
		return this.listeners(name);
	},
	listenerCount(name) {
		return listOf(this, name).length;
	},
	eventNames() {
		return [...(this._events ?? new Map()).keys()];
	},
	setMaxListeners(count) {
		this._maxListeners = count;
		return this;
	},
	getMaxListeners() {
		return this._maxListeners ?? defaultMaxListeners;
	},
});
for (const name of Object.keys(EventEmitter.prototype)) {
	Object.defineProperty(EventEmitter.prototype, name, { enumerable: false });
}

export function once(emitter, name, { signal } = {}) {
	return new Promise((resolve, reject) => {
		if (signal?.aborted) return reject(signal.reason);
		const isTarget = typeof emitter.addEventListener === "function" && typeof emitter.on !== "function";
		const done = (...args) => {
			if (!isTarget) emitter.off("error", failed);
			resolve(args);
		};
		const failed = (error) => {
			emitter.off(name, done);
			reject(error);
		};
		if (isTarget) emitter.addEventListener(name, done, { once: true });
		else {
			emitter.once(name, done);
			if (name !== "error") emitter.once("error", failed);
		}
		signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
	});
}

export async function* on(emitter, name, { signal } = {}) {
	const waiting = [];
	let wake;
	let failure;
	const note = (...args) => {
		waiting.push(args);
		wake?.();
	};
	const fail = (error) => {
		failure = error;
		wake?.();
	};
	emitter.on(name, note);
	emitter.on("error", fail);
	signal?.addEventListener("abort", () => fail(signal.reason), { once: true });
	try {
		for (;;) {
			while (waiting.length > 0) yield waiting.shift();
			if (failure) throw failure;
			await new Promise((resolve) => {
				wake = resolve;
			});
		}
	} finally {
		emitter.off(name, note);
		emitter.off("error", fail);
	}
}

export function getEventListeners(emitter, name) {
	return emitter.listeners?.(name) ?? [];
}

export function listenerCount(emitter, name) {
	return emitter.listenerCount(name);
}

export function setMaxListeners() {}

export function addAbortListener(signal, listener) {
	signal.addEventListener("abort", listener, { once: true });
	return { [Symbol.dispose]: () => signal.removeEventListener("abort", listener) };
}

export class EventEmitterAsyncResource extends EventEmitter {}

Object.assign(EventEmitter, {
	EventEmitter,
	EventEmitterAsyncResource,
	errorMonitor,
	captureRejectionSymbol,
	defaultMaxListeners,
	once,
	on,
	getEventListeners,
	listenerCount,
	setMaxListeners,
	addAbortListener,
});

export default EventEmitter;
