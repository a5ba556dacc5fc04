// `fetch` through the host's HTTP client. Bodies stream.

import { ask, begin } from "tiller:host";
import { bytesOf, joined } from "web:encoding";
import { Blob, FormData } from "web:blob";

const REDIRECTS = [301, 302, 303, 307, 308];
const REDIRECTS_MAX = 20;

export class Headers {
	#pairs = new Map();
	constructor(from) {
		if (!from) return;
		const pairs = typeof from[Symbol.iterator] === "function" ? from : Object.entries(from);
		for (const [name, value] of pairs) this.append(name, value);
	}
	static #key(name) {
		const key = String(name).toLowerCase();
		if (!/^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(key)) throw new TypeError(`Headers: invalid header name "${name}"`);
		return key;
	}
	append(name, value) {
		const key = Headers.#key(name);
		this.#pairs.set(key, [...(this.#pairs.get(key) ?? []), String(value).trim()]);
	}
	set(name, value) {
		this.#pairs.set(Headers.#key(name), [String(value).trim()]);
	}
	get(name) {
		return this.#pairs.get(Headers.#key(name))?.join(", ") ?? null;
	}
	has(name) {
		return this.#pairs.has(Headers.#key(name));
	}
	delete(name) {
		this.#pairs.delete(Headers.#key(name));
	}
	getSetCookie() {
		return [...(this.#pairs.get("set-cookie") ?? [])];
	}
	forEach(callback, self) {
		for (const [name, value] of this) callback.call(self, value, name, this);
	}
	*entries() {
		for (const name of [...this.#pairs.keys()].sort()) yield [name, this.get(name)];
	}
	*keys() {
		for (const [name] of this.entries()) yield name;
	}
	*values() {
		for (const [, value] of this.entries()) yield value;
	}
	[Symbol.iterator]() {
		return this.entries();
	}
	get [Symbol.toStringTag]() {
		return "Headers";
	}
}

/** A body as bytes or a stream, with its content type. */
function bodyOf(body) {
	if (body === undefined || body === null) return { bytes: null };
	if (body instanceof ReadableStream) return { stream: body };
	if (body instanceof FormData) return body._encode();
	if (body instanceof Blob) return { bytes: body._bytes, type: body.type || undefined };
	if (body instanceof URLSearchParams) return { bytes: new TextEncoder().encode(body.toString()), type: "application/x-www-form-urlencoded;charset=UTF-8" };
	if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return { bytes: bytesOf(body) };
	if (typeof body === "object" && typeof body[Symbol.asyncIterator] === "function") return { stream: ReadableStream.from(body) };
	return { bytes: new TextEncoder().encode(String(body)), type: "text/plain;charset=UTF-8" };
}

class Body {
	#bytes;
	#stream;
	bodyUsed = false;
	_setBody(body) {
		const { bytes = null, stream, type } = bodyOf(body);
		this.#bytes = bytes;
		this.#stream = stream;
		if (type && !this.headers.has("content-type")) this.headers.set("content-type", type);
	}
	get body() {
		if (this.#stream === undefined && this.#bytes !== null) {
			const bytes = this.#bytes;
			this.#stream = new ReadableStream({
				start(controller) {
					if (bytes.length > 0) controller.enqueue(bytes);
					controller.close();
				},
			});
		}
		return this.#stream ?? null;
	}
	async bytes() {
		if (this.bodyUsed || this.#stream?.locked) throw new TypeError("Body is unusable: Body has already been read");
		this.bodyUsed = true;
		if (this.#stream === undefined) return this.#bytes ?? new Uint8Array(0);
		const parts = [];
		for await (const part of this.#stream) parts.push(typeof part === "string" ? new TextEncoder().encode(part) : bytesOf(part));
		return joined(...parts);
	}
	async arrayBuffer() {
		return (await this.bytes()).slice().buffer;
	}
	async text() {
		return new TextDecoder().decode(await this.bytes());
	}
	async json() {
		return JSON.parse(await this.text());
	}
	async blob() {
		return new Blob([await this.bytes()], { type: this.headers.get("content-type") ?? "" });
	}
	async formData() {
		const form = new FormData();
		for (const [name, value] of new URLSearchParams(await this.text())) form.append(name, value);
		return form;
	}
	_shareBody(other) {
		if (this.#stream === undefined) {
			other._setBody(this.#bytes);
			return;
		}
		const [mine, theirs] = this.#stream.tee();
		this.#stream = mine;
		other._setBody(theirs);
	}
}

export class Request extends Body {
	constructor(input, init = {}) {
		super();
		const from = input instanceof Request ? input : undefined;
		this.url = from ? from.url : new URL(String(input)).href;
		this.method = String(init.method ?? from?.method ?? "GET").toUpperCase();
		this.headers = new Headers(init.headers ?? from?.headers);
		this.redirect = init.redirect ?? from?.redirect ?? "follow";
		this.signal = init.signal ?? from?.signal ?? new AbortController().signal;
		this.credentials = init.credentials ?? "same-origin";
		this.mode = init.mode ?? "cors";
		this.cache = init.cache ?? "default";
		this.keepalive = init.keepalive ?? false;
		if ((this.method === "GET" || this.method === "HEAD") && init.body !== undefined && init.body !== null) {
			throw new TypeError("Request with GET/HEAD method cannot have body.");
		}
		if (init.body !== undefined) this._setBody(init.body);
		else if (from) from._shareBody(this);
		else this._setBody(null);
	}
	clone() {
		return new Request(this);
	}
	get [Symbol.toStringTag]() {
		return "Request";
	}
}

export class Response extends Body {
	constructor(body, { status = 200, statusText = "", headers } = {}) {
		super();
		if (status !== 101 && !(status >= 200 && status <= 599)) throw new RangeError("init[\"status\"] must be in the range of 200 to 599, inclusive.");
		this.status = status;
		this.statusText = statusText;
		this.headers = new Headers(headers);
		this.url = "";
		this.redirected = false;
		this.type = "default";
		this._setBody(body);
	}
	get ok() {
		return this.status >= 200 && this.status < 300;
	}
	clone() {
		const other = new Response(null, { status: this.status, statusText: this.statusText, headers: this.headers });
		this._shareBody(other);
		other.url = this.url;
		return other;
	}
	static json(value, init = {}) {
		const headers = new Headers(init.headers);
		if (!headers.has("content-type")) headers.set("content-type", "application/json");
		return new Response(JSON.stringify(value), { ...init, headers });
	}
	static error() {
		const response = new Response(null);
		response.type = "error";
		response.status = 0;
		return response;
	}
	static redirect(url, status = 302) {
		return new Response(null, { status, headers: { location: String(url) } });
	}
	get [Symbol.toStringTag]() {
		return "Response";
	}
}

export async function fetch(input, init = {}) {
	const request = new Request(input, init);
	const { signal } = request;
	signal.throwIfAborted();
	let { url, method } = request;
	let body = request.body === null ? undefined : await request.bytes();
	const headers = new Headers(request.headers);
	if (!headers.has("accept")) headers.set("accept", "*/*");
	if (!headers.has("user-agent")) headers.set("user-agent", "node");
	for (let hop = 0; ; hop++) {
		const head = await exchange({ method, url, headers: [...headers], followRedirects: false }, body, signal);
		const to = head.headers.find(([name]) => name.toLowerCase() === "location")?.[1];
		if (!REDIRECTS.includes(head.status) || to === undefined || request.redirect === "manual") return answer(head, url, hop > 0, signal);
		await ask("http.close", head.body);
		if (request.redirect === "error" || hop >= REDIRECTS_MAX) throw failure(new Error("unexpected redirect"));
		const next = new URL(to, url);
		if (next.origin !== new URL(url).origin) for (const name of ["authorization", "cookie"]) headers.delete(name);
		url = next.href;
		if (head.status === 303 || ((head.status === 301 || head.status === 302) && method === "POST")) {
			method = "GET";
			body = undefined;
			for (const name of ["content-type", "content-length"]) headers.delete(name);
		}
	}
}

function failure(cause) {
	return Object.assign(new TypeError("fetch failed"), { cause });
}

function exchange(asked, body, signal) {
	return new Promise((resolve, reject) => {
		const { promise, cancel } = begin("http.fetch", asked, body);
		const abort = () => {
			cancel();
			reject(signal.reason);
		};
		signal.addEventListener("abort", abort, { once: true });
		promise.then(resolve, (error) => reject(failure(error))).finally(() => signal.removeEventListener("abort", abort));
	});
}

function answer(head, url, redirected, signal) {
	let abort;
	const stop = () => {
		signal.removeEventListener("abort", abort);
		return ask("http.close", head.body);
	};
	const hasBody = head.status !== 204 && head.status !== 304;
	const stream = new ReadableStream(
		{
			start(controller) {
				abort = () => {
					controller.error(signal.reason);
					stop();
				};
				signal.addEventListener("abort", abort, { once: true });
			},
			async pull(controller) {
				let bytes;
				try {
					bytes = await ask("http.read", head.body);
				} catch (error) {
					throw Object.assign(new TypeError("terminated"), { cause: error });
				}
				if (bytes === undefined) {
					controller.close();
					await stop();
				} else controller.enqueue(bytes);
			},
			cancel: stop,
		},
		{ highWaterMark: 0 },
	);
	const response = new Response(hasBody ? stream : null, { status: head.status, statusText: head.statusText, headers: head.headers });
	response.url = head.url || url;
	response.redirected = redirected;
	response.type = "basic";
	return response;
}
