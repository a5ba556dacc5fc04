// Node's HTTP requests, through the host's client.

import { ask, begin } from "tiller:host";
import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import { Readable, Writable } from "node:stream";

export const METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];
export const STATUS_CODES = { 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 301: "Moved Permanently", 302: "Found", 303: "See Other", 304: "Not Modified", 307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 409: "Conflict", 410: "Gone", 413: "Payload Too Large", 415: "Unsupported Media Type", 422: "Unprocessable Entity", 429: "Too Many Requests", 500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout" };

export class Agent extends EventEmitter {
	constructor(options = {}) {
		super();
		this.options = options;
	}
	destroy() {}
}
export const globalAgent = new Agent();

export class IncomingMessage extends Readable {
	httpVersion = "1.1";
	complete = false;
	socket = { remoteAddress: undefined, destroy() {}, setTimeout() {} };
	constructor(options) {
		super(options);
		this.headers = {};
		this.rawHeaders = [];
		this.trailers = {};
	}
	_take(headers) {
		for (const [name, value] of headers) {
			this.rawHeaders.push(name, value);
			const key = name.toLowerCase();
			if (key === "set-cookie") (this.headers[key] ??= []).push(value);
			else this.headers[key] = key in this.headers ? `${this.headers[key]}, ${value}` : value;
		}
	}
	get connection() {
		return this.socket;
	}
	get headersDistinct() {
		return Object.fromEntries(Object.entries(this.headers).map(([name, value]) => [name, [value].flat()]));
	}
	setTimeout(_ms, _callback) {
		return this;
	}
}

export class ClientRequest extends Writable {
	#headers = new Map();
	#parts = [];
	#sent;
	#timer;
	aborted = false;
	reusedSocket = false;
	socket = null;

	constructor(url, options, callback) {
		super();
		this.url = url;
		this.method = String(options.method ?? "GET").toUpperCase();
		this.path = url.pathname + url.search;
		this.host = url.hostname;
		this.protocol = url.protocol;
		for (const [name, value] of Object.entries(options.headers ?? {})) this.setHeader(name, value);
		if (options.auth) this.setHeader("Authorization", `Basic ${Buffer.from(options.auth).toString("base64")}`);
		if (callback) this.once("response", callback);
		if (options.timeout) this.setTimeout(options.timeout);
		options.signal?.addEventListener("abort", () => this.destroy(options.signal.reason), { once: true });
	}
	setHeader(name, value) {
		this.#headers.set(String(name).toLowerCase(), [String(name), value]);
		return this;
	}
	getHeader(name) {
		return this.#headers.get(String(name).toLowerCase())?.[1];
	}
	hasHeader(name) {
		return this.#headers.has(String(name).toLowerCase());
	}
	removeHeader(name) {
		this.#headers.delete(String(name).toLowerCase());
	}
	getHeaders() {
		return Object.fromEntries([...this.#headers].map(([key, [, value]]) => [key, value]));
	}
	flushHeaders() {}
	setNoDelay() {}
	setSocketKeepAlive() {}
	setTimeout(ms, callback) {
		if (callback) this.once("timeout", callback);
		clearTimeout(this.#timer);
		if (ms > 0) this.#timer = setTimeout(() => this.emit("timeout"), ms);
		return this;
	}
	abort() {
		this.aborted = true;
		this.destroy(Object.assign(new Error("socket hang up"), { code: "ECONNRESET" }));
	}
	_write(chunk, _encoding, callback) {
		this.#parts.push(chunk);
		callback();
	}
	_final(callback) {
		const body = Buffer.concat(this.#parts);
		const headers = [...this.#headers.values()].flatMap(([name, value]) => [value].flat().map((each) => [name, String(each)]));
		const asked = { method: this.method, url: this.url.href, headers, followRedirects: false };
		this.#sent = begin("http.fetch", asked, body.length > 0 ? body : undefined);
		this.#sent.promise.then((head) => this.#answered(head), (error) => this.#failed(error));
		callback();
	}
	#failed(error) {
		clearTimeout(this.#timer);
		this.emit("error", Object.assign(error, { code: error.code ?? /\b(E[A-Z]{4,})\b/.exec(error.message)?.[1] ?? "ECONNRESET" }));
		this.emit("close");
	}
	#answered(head) {
		clearTimeout(this.#timer);
		const message = new IncomingMessage({
			read() {
				ask("http.read", head.body).then((bytes) => {
					if (bytes === undefined) this.complete = true;
					this.push(bytes === undefined ? null : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
				}, (error) => this.destroy(error));
			},
			destroy(error, callback) {
				ask("http.close", head.body).then(() => callback(error), () => callback(error));
			},
		});
		message.statusCode = head.status;
		message.statusMessage = head.statusText || STATUS_CODES[head.status] || "";
		message.req = this;
		message._take(head.headers);
		this.res = message;
		if (!this.emit("response", message)) message.resume();
	}
	_destroy(error, callback) {
		clearTimeout(this.#timer);
		// Before the response arrives the request can be cancelled; afterwards the response handles it.
		if (!this.res && error) this.#sent?.cancel();
		callback(error);
	}
}

/** `request(url?, options?, callback?)`. `this.protocol` is that of the module, `http` or `https`. */
export function request(...args) {
	const callback = args.find((each) => typeof each === "function");
	const given = args.filter((each) => typeof each !== "function" && each !== undefined);
	const first = given[0];
	const options = (typeof first === "string" || first instanceof URL ? given[1] : first) ?? {};
	let url = typeof first === "string" ? new URL(first) : first instanceof URL ? new URL(first.href) : undefined;
	if (!url || options.hostname || options.host || options.path) {
		const protocol = options.protocol ?? url?.protocol ?? this?.protocol ?? "http:";
		const host = options.hostname ?? options.host ?? url?.hostname ?? "localhost";
		const port = options.port ?? url?.port;
		url = new URL(options.path ?? (url ? url.pathname + url.search : "/"), `${protocol}//${host.includes(":") && !host.startsWith("[") && !/:\d+$/.test(host) ? `[${host}]` : host}${port ? `:${port}` : ""}`);
	}
	return new ClientRequest(url, options, callback);
}

export function get(...args) {
	const sent = request.call(this, ...args);
	sent.end();
	return sent;
}
