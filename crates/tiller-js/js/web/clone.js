// `structuredClone` and `MessageChannel`.

import { EventTarget, Event } from "web:events";

function refuse(value) {
	return new DOMException(`${String(value)} could not be cloned.`, "DataCloneError");
}

function copy(value, seen) {
	if (typeof value === "function" || typeof value === "symbol") throw refuse(value);
	if (typeof value !== "object" || value === null) return value;
	if (seen.has(value)) return seen.get(value);
	const keep = (made) => {
		seen.set(value, made);
		return made;
	};
	if (value instanceof Date) return keep(new Date(value));
	if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
	if (value instanceof ArrayBuffer) return keep(value.slice());
	if (ArrayBuffer.isView(value)) {
		const buffer = copy(value.buffer, seen);
		return keep(new value.constructor(buffer, value.byteOffset, value.length ?? value.byteLength));
	}
	if (value instanceof Map) {
		const made = keep(new Map());
		for (const [key, held] of value) made.set(copy(key, seen), copy(held, seen));
		return made;
	}
	if (value instanceof Set) {
		const made = keep(new Set());
		for (const held of value) made.add(copy(held, seen));
		return made;
	}
	if (value instanceof Error) {
		const made = keep(Object.create(Object.getPrototypeOf(value)));
		for (const name of ["name", "message", "stack", "cause"]) if (name in value) Object.defineProperty(made, name, { value: copy(value[name], seen), configurable: true, writable: true });
		return made;
	}
	if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet) throw refuse(value);
	const made = keep(Array.isArray(value) ? new Array(value.length) : {});
	for (const key of Object.keys(value)) made[key] = copy(value[key], seen);
	return made;
}

export function structuredClone(value) {
	return copy(value, new Map());
}

export class MessageEvent extends Event {
	constructor(type, { data } = {}) {
		super(type);
		this.data = data;
	}
}

export class MessagePort extends EventTarget {
	onmessage = null;
	_other = undefined;
	postMessage(value) {
		const data = structuredClone(value);
		setTimeout(() => {
			const event = new MessageEvent("message", { data });
			this._other?.onmessage?.(event);
			this._other?.dispatchEvent(event);
		}, 0);
	}
	start() {}
	close() {}
	ref() {}
	unref() {}
}

export class MessageChannel {
	port1 = new MessagePort();
	port2 = new MessagePort();
	constructor() {
		this.port1._other = this.port2;
		this.port2._other = this.port1;
	}
}

export class BroadcastChannel extends MessagePort {
	constructor(name) {
		super();
		this.name = name;
	}
}
