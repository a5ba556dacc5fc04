// `net`: outgoing and incoming connections.

import { begin, sync } from "tiller:host";
import { EventEmitter } from "node:events";
import { Buffer } from "node:buffer";
import { data, pathText } from "tiller:files";
import { Duplex } from "node:stream";

export class Socket extends Duplex {
	connecting = false;
	pending = true;
	bytesRead = 0;
	bytesWritten = 0;
	#id;
	#cancel;
	#early = [];
	#timer;

	constructor(options = {}) {
		super({ allowHalfOpen: options.allowHalfOpen ?? false });
	}
	connect(...args) {
		const [address, callback] = addressOf(args);
		if (callback) this.once("connect", callback);
		this.connecting = true;
		const { promise, cancel } = begin("net.connect", address, undefined, (event) => {
			if (event instanceof Uint8Array) this._arrived(event);
			else this._opened(event.id, event);
		});
		this.#cancel = cancel;
		promise.then(() => this.push(null), (error) => {
			this.connecting = false;
			this.destroy(error);
		});
		return this;
	}
	_opened(id, about) {
		this.#id = id;
		this.connecting = false;
		this.pending = false;
		Object.assign(this, about);
		for (const work of this.#early.splice(0)) work();
		this.emit("connect");
		this.emit("ready");
	}
	_arrived(bytes) {
		this.bytesRead += bytes.length;
		this.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
	}
	#whenOpen(work) {
		if (this.#id === undefined) this.#early.push(work);
		else work();
	}
	_read() {
		this._isReading = false;
	}
	_write(chunk, encoding, callback) {
		this.#whenOpen(() => {
			const bytes = data(chunk, encoding);
			this.bytesWritten += bytes.length;
			sync("net.write", this.#id, bytes);
			callback();
		});
	}
	_final(callback) {
		this.#whenOpen(() => {
			sync("net.end", this.#id);
			callback();
		});
	}
	_destroy(error, callback) {
		clearTimeout(this.#timer);
		if (this.#id !== undefined) sync("net.end", this.#id);
		this.#cancel?.();
		callback(error);
	}
	setTimeout(ms, callback) {
		clearTimeout(this.#timer);
		if (callback) this.once("timeout", callback);
		if (ms > 0) this.#timer = setTimeout(() => this.emit("timeout"), ms);
		return this;
	}
	destroySoon() {
		this.end();
	}
	setNoDelay() {
		return this;
	}
	setKeepAlive() {
		return this;
	}
	address() {
		return { address: this.localAddress, port: this.localPort, family: "IPv4" };
	}
	get readyState() {
		return this.connecting ? "opening" : this.destroyed ? "closed" : "open";
	}
	ref() {
		return this;
	}
	unref() {
		return this;
	}
}

/** Reads the arguments: a port and host, a path, or an object with either; and a callback. */
function addressOf(args) {
	const callback = typeof args.at(-1) === "function" ? args.at(-1) : undefined;
	const [first, second] = args;
	if (typeof first === "object" && first !== null) {
		return [first.path ? { path: pathText(first.path) } : { host: first.host, port: Number(first.port ?? 0) }, callback];
	}
	if (typeof first === "string" && Number.isNaN(Number(first))) return [{ path: pathText(first) }, callback];
	return [{ port: Number(first ?? 0), host: typeof second === "string" ? second : undefined }, callback];
}

export class Server extends EventEmitter {
	listening = false;
	#cancel;
	#address = null;
	#sockets = new Map();

	constructor(options, listener) {
		super();
		const callback = typeof options === "function" ? options : listener;
		if (callback) this.on("connection", callback);
	}
	listen(...args) {
		const [address, callback] = addressOf(args);
		if (callback) this.once("listening", callback);
		let from;
		const { promise, cancel } = begin("net.listen", address, undefined, (event) => {
			if (event instanceof Uint8Array) this.#sockets.get(from)?._arrived(event);
			else if (event.from !== undefined) from = event.from;
			else if (event.ended !== undefined) {
				this.#sockets.get(event.ended)?.push(null);
				this.#sockets.delete(event.ended);
			} else if (event.id !== undefined) {
				const socket = new Socket({ allowHalfOpen: true });
				this.#sockets.set(event.id, socket);
				socket._opened(event.id, event);
				this.emit("connection", socket);
			} else {
				this.listening = true;
				this.#address = event.path ?? { port: event.port, address: event.address, family: event.address.includes(":") ? "IPv6" : "IPv4" };
				this.emit("listening");
			}
		});
		this.#cancel = cancel;
		promise.catch((error) => this.emit("error", Object.assign(error, { syscall: "listen", message: error.message.replace("connect", "listen") })));
		return this;
	}
	address() {
		return this.#address;
	}
	close(callback) {
		if (callback) this.once("close", callback);
		this.#cancel?.();
		this.listening = false;
		setTimeout(() => this.emit("close"), 0);
		return this;
	}
	closeAllConnections() {
		for (const socket of this.#sockets.values()) socket.destroy();
	}
	closeIdleConnections() {}
	getConnections(callback) {
		callback(null, this.#sockets.size);
	}
	ref() {
		return this;
	}
	unref() {
		return this;
	}
	async [Symbol.asyncDispose]() {
		this.close();
	}
}

export const createServer = (options, listener) => new Server(options, listener);
export const connect = (...args) => new Socket(typeof args[0] === "object" ? args[0] : {}).connect(...args);
export const createConnection = connect;
export const Stream = Socket;

export function isIPv4(text) {
	return /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/.test(text);
}
export function isIPv6(text) {
	return String(text).includes(":") && URL.canParse(`http://[${String(text).replace(/%.*$/, "")}]/`);
}
export const isIP = (text) => (isIPv4(text) ? 4 : isIPv6(text) ? 6 : 0);
/** An address as bits, to compare with a range. */
function bitsOf(address) {
	if (isIPv4(address)) return address.split(".").map((part) => Number(part).toString(2).padStart(8, "0")).join("");
	const mapped = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(address);
	if (mapped) {
		const [a, b, c, d] = mapped[2].split(".").map(Number);
		return bitsOf(`${mapped[1]}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`);
	}
	const [head, tail = ""] = address.split("::");
	const groups = (text) => (text === "" ? [] : text.split(":"));
	const [left, right] = [groups(head), groups(tail)];
	const middle = address.includes("::") ? Array(8 - left.length - right.length).fill("0") : [];
	return [...left, ...middle, ...right].map((group) => Number.parseInt(group, 16).toString(2).padStart(16, "0")).join("");
}

export class BlockList {
	#rules = [];
	addAddress(address) {
		const bits = bitsOf(address);
		this.#rules.push((other) => other === bits);
	}
	addSubnet(network, prefix) {
		const bits = bitsOf(network);
		this.#rules.push((other) => other.length === bits.length && other.slice(0, prefix) === bits.slice(0, prefix));
	}
	addRange(first, last) {
		const [from, to] = [bitsOf(first), bitsOf(last)];
		this.#rules.push((other) => other.length === from.length && other >= from && other <= to);
	}
	check(address) {
		const bits = bitsOf(address);
		return this.#rules.some((rule) => rule(bits));
	}
	get rules() {
		return this.#rules.map(String);
	}
}

export class SocketAddress {
	constructor({ address = "127.0.0.1", family = "ipv4", port = 0 } = {}) {
		Object.assign(this, { address, family, port, flowlabel: 0 });
	}
}

export const setDefaultAutoSelectFamily = () => {};
export const getDefaultAutoSelectFamily = () => true;
