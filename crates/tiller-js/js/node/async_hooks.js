// `async_hooks`: `AsyncLocalStorage`, which keeps its store across `await` as far as the engine allows.

import { native } from "tiller:host";

export class AsyncLocalStorage {
	#store;
	run(store, callback, ...args) {
		const before = this.#store;
		this.#store = store;
		let result;
		try {
			result = callback(...args);
		} catch (error) {
			this.#store = before;
			throw error;
		}
		if (typeof result?.then !== "function") {
			this.#store = before;
			return result;
		}
		return result.finally(() => {
			this.#store = before;
		});
	}
	exit(callback, ...args) {
		return this.run(undefined, callback, ...args);
	}
	getStore() {
		return this.#store;
	}
	enterWith(store) {
		this.#store = store;
	}
	disable() {
		this.#store = undefined;
	}
	static bind(callback) {
		return callback;
	}
	static snapshot() {
		return (callback, ...args) => callback(...args);
	}
}

export class AsyncResource {
	constructor(type) {
		this.type = type;
	}
	runInAsyncScope(callback, self, ...args) {
		return callback.apply(self, args);
	}
	bind(callback) {
		return callback;
	}
	static bind(callback) {
		return callback;
	}
	emitDestroy() {
		return this;
	}
	asyncId() {
		return native.extension();
	}
	triggerAsyncId() {
		return 0;
	}
}

export const createHook = () => ({ enable: () => ({}), disable: () => ({}) });
export const executionAsyncId = () => 1;
export const triggerAsyncId = () => 0;
export const executionAsyncResource = () => ({});
