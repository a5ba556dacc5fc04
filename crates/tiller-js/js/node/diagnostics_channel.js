// `diagnostics_channel`.

const channels = new Map();

class Channel {
	#subscribers = new Set();
	constructor(name) {
		this.name = name;
	}
	get hasSubscribers() {
		return this.#subscribers.size > 0;
	}
	publish(message) {
		for (const subscriber of this.#subscribers) subscriber(message, this.name);
	}
	subscribe(subscriber) {
		this.#subscribers.add(subscriber);
	}
	unsubscribe(subscriber) {
		return this.#subscribers.delete(subscriber);
	}
	bindStore() {}
	unbindStore() {}
	runStores(_context, callback, self, ...args) {
		return callback.apply(self, args);
	}
}

export { Channel };
export function channel(name) {
	if (!channels.has(name)) channels.set(name, new Channel(name));
	return channels.get(name);
}
export const hasSubscribers = (name) => channels.get(name)?.hasSubscribers ?? false;
export const subscribe = (name, subscriber) => channel(name).subscribe(subscriber);
export const unsubscribe = (name, subscriber) => channel(name).unsubscribe(subscriber);
export const tracingChannel = (name) => ({ start: channel(`${name}:start`), end: channel(`${name}:end`), asyncStart: channel(`${name}:asyncStart`), asyncEnd: channel(`${name}:asyncEnd`), error: channel(`${name}:error`), hasSubscribers: false, traceSync: (callback, _context, self, ...args) => callback.apply(self, args), tracePromise: (callback, _context, self, ...args) => callback.apply(self, args) });
