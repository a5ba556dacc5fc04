// `EventTarget`, `AbortController` and `AbortSignal`.

export class DOMException extends Error {
	constructor(message = "", name = "Error") {
		super(message);
		const given = typeof name === "object" ? (name?.name ?? "Error") : name;
		Object.defineProperty(this, "name", { value: String(given), configurable: true, writable: true });
		if (typeof name === "object" && name?.cause !== undefined) this.cause = name.cause;
	}
	get code() {
		return { AbortError: 20, TimeoutError: 23, NotFoundError: 8, DataCloneError: 25 }[this.name] ?? 0;
	}
	static ABORT_ERR = 20;
	static TIMEOUT_ERR = 23;
}

export class Event {
	#stopped = false;
	#prevented = false;
	constructor(type, { bubbles = false, cancelable = false, composed = false } = {}) {
		this.type = String(type);
		this.bubbles = bubbles;
		this.cancelable = cancelable;
		this.composed = composed;
		this.target = null;
		this.currentTarget = null;
		this.timeStamp = performance.now();
	}
	get defaultPrevented() {
		return this.#prevented;
	}
	get isStopped() {
		return this.#stopped;
	}
	preventDefault() {
		if (this.cancelable) this.#prevented = true;
	}
	stopPropagation() {}
	stopImmediatePropagation() {
		this.#stopped = true;
	}
}

export class CustomEvent extends Event {
	constructor(type, options = {}) {
		super(type, options);
		this.detail = options.detail ?? null;
	}
}

export class EventTarget {
	#listeners = new Map();

	addEventListener(type, listener, options = {}) {
		if (!listener) return;
		const { once = false, signal } = typeof options === "object" && options !== null ? options : {};
		if (signal?.aborted) return;
		const list = this.#listeners.get(type) ?? [];
		if (list.some((known) => known.listener === listener)) return;
		this.#listeners.set(type, [...list, { listener, once }]);
		signal?.addEventListener("abort", () => this.removeEventListener(type, listener), { once: true });
	}

	removeEventListener(type, listener) {
		const list = this.#listeners.get(type);
		if (list) this.#listeners.set(type, list.filter((known) => known.listener !== listener));
	}

	dispatchEvent(event) {
		event.target ??= this;
		event.currentTarget = this;
		for (const { listener, once } of this.#listeners.get(event.type) ?? []) {
			if (once) this.removeEventListener(event.type, listener);
			try {
				if (typeof listener === "function") listener.call(this, event);
				else listener.handleEvent(event);
			} catch (error) {
				// Reported like any uncaught error; dispatch goes on.
				queueMicrotask(() => {
					throw error;
				});
			}
			if (event.isStopped) break;
		}
		event.currentTarget = null;
		return !event.defaultPrevented;
	}
}

let isMaking = false;

export class AbortSignal extends EventTarget {
	#aborted = false;
	#reason;
	onabort = null;

	constructor() {
		if (!isMaking) throw new TypeError("Illegal constructor");
		super();
	}
	get aborted() {
		return this.#aborted;
	}
	get reason() {
		return this.#reason;
	}
	throwIfAborted() {
		if (this.#aborted) throw this.#reason;
	}
	static _make() {
		isMaking = true;
		try {
			return new AbortSignal();
		} finally {
			isMaking = false;
		}
	}
	_fire(reason) {
		if (this.#aborted) return;
		this.#aborted = true;
		this.#reason = reason === undefined ? new DOMException("This operation was aborted", "AbortError") : reason;
		const event = new Event("abort");
		this.onabort?.call(this, event);
		this.dispatchEvent(event);
	}
	static abort(reason) {
		const signal = AbortSignal._make();
		signal._fire(reason);
		return signal;
	}
	static timeout(ms) {
		const signal = AbortSignal._make();
		setTimeout(() => signal._fire(new DOMException("The operation was aborted due to timeout", "TimeoutError")), ms);
		return signal;
	}
	static any(signals) {
		const any = AbortSignal._make();
		for (const signal of signals) {
			if (signal.aborted) {
				any._fire(signal.reason);
				return any;
			}
		}
		for (const signal of signals) signal.addEventListener("abort", () => any._fire(signal.reason), { once: true });
		return any;
	}
	get [Symbol.toStringTag]() {
		return "AbortSignal";
	}
}

export class AbortController {
	signal = AbortSignal._make();
	abort(reason) {
		this.signal._fire(reason);
	}
	get [Symbol.toStringTag]() {
		return "AbortController";
	}
}
