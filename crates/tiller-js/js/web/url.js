// `URL` and `URLSearchParams`. The host parses.

import { sync } from "tiller:host";

export class URL {
	#parts;
	#params;

	constructor(input, base) {
		this.#parts = sync("url.parse", {
			input: String(input).toWellFormed(),
			base: base === undefined ? undefined : String(base).toWellFormed(),
		});
	}

	static canParse(input, base) {
		return URL.parse(input, base) !== null;
	}

	static parse(input, base) {
		try {
			return new URL(input, base);
		} catch {
			return null;
		}
	}

	#set(part, value) {
		this.#parts = sync("url.set", { href: this.#parts.href, part, value: String(value).toWellFormed() });
		if (part === "search") this.#params?._read(this.#parts.search);
	}

	get href() {
		return this.#parts.href;
	}
	set href(value) {
		this.#parts = sync("url.parse", { input: String(value) });
		this.#params?._read(this.#parts.search);
	}
	get origin() {
		return this.#parts.origin;
	}
	get protocol() {
		return this.#parts.protocol;
	}
	set protocol(value) {
		this.#set("protocol", value);
	}
	get username() {
		return this.#parts.username;
	}
	set username(value) {
		this.#set("username", value);
	}
	get password() {
		return this.#parts.password;
	}
	set password(value) {
		this.#set("password", value);
	}
	get host() {
		return this.#parts.host;
	}
	set host(value) {
		this.#set("host", value);
	}
	get hostname() {
		return this.#parts.hostname;
	}
	set hostname(value) {
		this.#set("hostname", value);
	}
	get port() {
		return this.#parts.port;
	}
	set port(value) {
		this.#set("port", value);
	}
	get pathname() {
		return this.#parts.pathname;
	}
	set pathname(value) {
		this.#set("pathname", value);
	}
	get search() {
		return this.#parts.search;
	}
	set search(value) {
		this.#set("search", value);
	}
	get hash() {
		return this.#parts.hash;
	}
	set hash(value) {
		this.#set("hash", value);
	}
	get searchParams() {
		this.#params ??= new URLSearchParams(this.#parts.search)._belongTo((text) => {
			this.#parts = sync("url.set", { href: this.#parts.href, part: "search", value: text });
		});
		return this.#params;
	}
	toString() {
		return this.href;
	}
	toJSON() {
		return this.href;
	}
	get [Symbol.toStringTag]() {
		return "URL";
	}
}

function decode(text) {
	const plain = text.replace(/\+/g, " ");
	try {
		return decodeURIComponent(plain);
	} catch {
		return plain.replace(/(?:%[0-9a-f]{2})+/gi, (run) => {
			try {
				return decodeURIComponent(run);
			} catch {
				return run;
			}
		});
	}
}

function encode(text) {
	return encodeURIComponent(text.toWellFormed())
		.replace(/%20/g, "+")
		.replace(/[!'()~]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

export class URLSearchParams {
	#pairs = [];
	#changed = () => {};

	constructor(from = "") {
		if (typeof from === "object" && from !== null) {
			const pairs = typeof from[Symbol.iterator] === "function" ? from : Object.entries(from);
			for (const [name, value] of pairs) this.#pairs.push([String(name), String(value)]);
		} else {
			this._read(String(from));
		}
	}

	_read(text) {
		this.#pairs = text
			.replace(/^\?/, "")
			.split("&")
			.filter((part) => part !== "")
			.map((part) => {
				const at = part.indexOf("=");
				return at < 0 ? [decode(part), ""] : [decode(part.slice(0, at)), decode(part.slice(at + 1))];
			});
	}

	_belongTo(changed) {
		this.#changed = () => changed(this.toString());
		return this;
	}

	get size() {
		return this.#pairs.length;
	}
	append(name, value) {
		this.#pairs.push([String(name), String(value)]);
		this.#changed();
	}
	delete(name, value) {
		this.#pairs = this.#pairs.filter(([key, held]) => key !== String(name) || (value !== undefined && held !== String(value)));
		this.#changed();
	}
	get(name) {
		return this.#pairs.find(([key]) => key === String(name))?.[1] ?? null;
	}
	getAll(name) {
		return this.#pairs.filter(([key]) => key === String(name)).map(([, value]) => value);
	}
	has(name, value) {
		return this.#pairs.some(([key, held]) => key === String(name) && (value === undefined || held === String(value)));
	}
	set(name, value) {
		const place = this.#pairs.findIndex(([key]) => key === String(name));
		if (place < 0) return this.append(name, value);
		this.#pairs = this.#pairs.filter(([key], at) => key !== String(name) || at === place);
		this.#pairs[place][1] = String(value);
		this.#changed();
	}
	sort() {
		this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
		this.#changed();
	}
	forEach(callback, self) {
		for (const [name, value] of this.#pairs) callback.call(self, value, name, this);
	}
	*entries() {
		for (const [name, value] of this.#pairs) yield [name, value];
	}
	*keys() {
		for (const [name] of this.#pairs) yield name;
	}
	*values() {
		for (const [, value] of this.#pairs) yield value;
	}
	[Symbol.iterator]() {
		return this.entries();
	}
	toString() {
		return this.#pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&");
	}
	get [Symbol.toStringTag]() {
		return "URLSearchParams";
	}
}
