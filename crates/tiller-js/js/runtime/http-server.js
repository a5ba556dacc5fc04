// An HTTP server over sockets, enough for a local page or a login callback.

import { Buffer } from "node:buffer";
import { IncomingMessage, STATUS_CODES } from "tiller:http-client";
import { Server as SocketServer } from "node:net";
import { Writable } from "node:stream";

const HEAD_MAX = 65536;

export class ServerResponse extends Writable {
	statusCode = 200;
	statusMessage = undefined;
	headersSent = false;
	sendDate = true;
	#headers = new Map();
	#socket;
	#isChunked = false;
	#hasBody;

	constructor(socket, method) {
		super();
		this.#socket = socket;
		this.#hasBody = method !== "HEAD";
		this.socket = socket;
	}
	setHeader(name, value) {
		this.#headers.set(String(name).toLowerCase(), [String(name), value]);
		return this;
	}
	getHeader(name) {
		return this.#headers.get(String(name).toLowerCase())?.[1];
	}
	getHeaders() {
		return Object.fromEntries([...this.#headers].map(([key, [, value]]) => [key, value]));
	}
	hasHeader(name) {
		return this.#headers.has(String(name).toLowerCase());
	}
	removeHeader(name) {
		this.#headers.delete(String(name).toLowerCase());
	}
	writeHead(status, message, headers) {
		this.statusCode = status;
		const more = typeof message === "object" ? message : headers;
		if (typeof message === "string") this.statusMessage = message;
		const pairs = Array.isArray(more) ? more : Object.entries(more ?? {});
		for (const [name, value] of pairs) this.setHeader(name, value);
		return this;
	}
	flushHeaders() {
		this.#sendHead();
	}
	writeContinue() {}
	#sendHead(length) {
		if (this.headersSent) return;
		this.headersSent = true;
		if (!this.hasHeader("content-length") && !this.hasHeader("transfer-encoding")) {
			if (length !== undefined) this.setHeader("Content-Length", length);
			else if (this.#hasBody && this.statusCode !== 204 && this.statusCode !== 304) {
				this.#isChunked = true;
				this.setHeader("Transfer-Encoding", "chunked");
			}
		}
		this.setHeader("Connection", "close");
		const lines = [...this.#headers.values()].flatMap(([name, value]) => [value].flat().map((each) => `${name}: ${each}`));
		const message = this.statusMessage ?? STATUS_CODES[this.statusCode] ?? "";
		this.#socket.write(`HTTP/1.1 ${this.statusCode} ${message}\r\n${lines.join("\r\n")}\r\n\r\n`);
	}
	end(chunk, encoding, callback) {
		// A response that is complete has a Content-Length.
		if (!this.headersSent && this._queue.length === 0) {
			const isBody = chunk !== undefined && typeof chunk !== "function";
			this.#sendHead(isBody ? Buffer.byteLength(chunk, typeof encoding === "string" ? encoding : undefined) : 0);
		}
		return super.end(chunk, encoding, callback);
	}
	_write(chunk, _encoding, callback) {
		this.#sendHead();
		if (this.#hasBody && chunk.length > 0) {
			if (this.#isChunked) this.#socket.write(`${chunk.length.toString(16)}\r\n`);
			this.#socket.write(chunk);
			if (this.#isChunked) this.#socket.write("\r\n");
		}
		callback();
	}
	_final(callback) {
		this.#sendHead();
		if (this.#isChunked) this.#socket.write("0\r\n\r\n");
		this.#socket.end();
		callback();
	}
}

export class Server extends SocketServer {
	constructor(options, listener) {
		super();
		const callback = typeof options === "function" ? options : listener;
		if (callback) this.on("request", callback);
		this.on("connection", (socket) => serve(this, socket));
	}
	setTimeout() {
		return this;
	}
}

export const createServer = (options, listener) => new Server(options, listener);

function serve(server, socket) {
	let waiting = Buffer.alloc(0);
	let body;
	socket.on("error", () => {});
	socket.on("data", (chunk) => {
		if (body) {
			body(chunk);
			return;
		}
		waiting = Buffer.concat([waiting, chunk]);
		const end = waiting.indexOf("\r\n\r\n");
		if (end < 0) {
			if (waiting.length > HEAD_MAX) socket.destroy();
			return;
		}
		const message = readHead(waiting.subarray(0, end).toString("latin1"), socket);
		if (!message) {
			socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
			return;
		}
		body = bodyOf(message);
		const response = new ServerResponse(socket, message.method);
		if (!server.emit("request", message, response)) response.writeHead(404).end();
		body(waiting.subarray(end + 4));
	});
}

function readHead(text, socket) {
	const [first, ...lines] = text.split("\r\n");
	const match = /^([A-Z]+) (\S+) HTTP\/(1\.[01])$/.exec(first);
	if (!match) return undefined;
	const message = new IncomingMessage({ read() {} });
	[, message.method, message.url, message.httpVersion] = match;
	message.socket = socket;
	message._take(lines.map((line) => {
		const at = line.indexOf(":");
		return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
	}));
	return message;
}

/** Gives a request its body, by Content-Length or chunked encoding. */
function bodyOf(message) {
	const finish = () => {
		message.complete = true;
		message.push(null);
	};
	if (/chunked/i.test(message.headers["transfer-encoding"] ?? "")) {
		let waiting = Buffer.alloc(0);
		return (bytes) => {
			waiting = Buffer.concat([waiting, bytes]);
			for (;;) {
				const end = waiting.indexOf("\r\n");
				if (end < 0) return;
				const size = Number.parseInt(waiting.subarray(0, end).toString("latin1"), 16);
				if (Number.isNaN(size) || waiting.length < end + 2 + size + 2) return;
				if (size === 0) return finish();
				message.push(Buffer.from(waiting.subarray(end + 2, end + 2 + size)));
				waiting = waiting.subarray(end + 2 + size + 2);
			}
		};
	}
	let left = Number(message.headers["content-length"] ?? 0);
	if (left === 0) finish();
	return (bytes) => {
		if (left === 0 || bytes.length === 0) return;
		const part = bytes.subarray(0, left);
		left -= part.length;
		message.push(Buffer.from(part));
		if (left === 0) finish();
	};
}
