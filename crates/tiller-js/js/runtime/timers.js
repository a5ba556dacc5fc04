// Node's timers. The host keeps the time and calls `fire`.

import { native } from "tiller:host";

const live = new Map();
let last = 0;

class Timeout {
	constructor(callback, ms, args, repeats) {
		this._id = ++last;
		this._callback = callback;
		this._ms = Number(ms) >= 1 ? Number(ms) : 1;
		this._args = args;
		this._repeats = repeats;
		this._refs = true;
		live.set(this._id, this);
		native.timer(this._id, this._ms);
	}
	ref() {
		this._refs = true;
		return this;
	}
	unref() {
		this._refs = false;
		return this;
	}
	hasRef() {
		return this._refs;
	}
	refresh() {
		live.set(this._id, this);
		native.timer(this._id, this._ms);
		return this;
	}
	close() {
		clear(this);
		return this;
	}
	[Symbol.toPrimitive]() {
		return this._id;
	}
	[Symbol.dispose]() {
		clear(this);
	}
}

class Immediate extends Timeout {
	constructor(callback, args) {
		super(callback, 0, args, false);
	}
}

function checked(callback) {
	if (typeof callback === "function") return callback;
	const error = new TypeError(`The "callback" argument must be of type function. Received ${typeof callback}`);
	error.code = "ERR_INVALID_ARG_TYPE";
	throw error;
}

export function setTimeout(callback, ms, ...args) {
	return new Timeout(checked(callback), ms, args, false);
}

export function setInterval(callback, ms, ...args) {
	return new Timeout(checked(callback), ms, args, true);
}

export function setImmediate(callback, ...args) {
	return new Immediate(checked(callback), args);
}

function clear(timer) {
	const id = typeof timer === "object" && timer !== null ? timer._id : Number(timer);
	if (!live.delete(id)) return;
	native.clearTimer(id);
}

export { clear as clearTimeout, clear as clearInterval, clear as clearImmediate };

/** Called by the host when a timer is due. */
export function fire(id) {
	const timer = live.get(id);
	if (!timer) return;
	if (timer._repeats) native.timer(id, timer._ms);
	else live.delete(id);
	timer._callback(...timer._args);
}
