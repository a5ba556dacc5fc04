// Blobs, files and forms.

import { bytesOf, joined } from "web:encoding";

function partBytes(part) {
	if (part instanceof Blob) return part._bytes;
	if (ArrayBuffer.isView(part) || part instanceof ArrayBuffer) return bytesOf(part).slice();
	return new TextEncoder().encode(String(part));
}

export class Blob {
	constructor(parts = [], { type = "" } = {}) {
		this._bytes = joined(...[...parts].map(partBytes));
		this.type = String(type).toLowerCase();
	}
	get size() {
		return this._bytes.length;
	}
	async arrayBuffer() {
		return this._bytes.slice().buffer;
	}
	async bytes() {
		return this._bytes.slice();
	}
	async text() {
		return new TextDecoder().decode(this._bytes);
	}
	slice(start, end, type = "") {
		return new Blob([this._bytes.slice(start, end)], { type });
	}
	stream() {
		const bytes = this._bytes;
		return new ReadableStream({
			start(controller) {
				if (bytes.length > 0) controller.enqueue(bytes);
				controller.close();
			},
		});
	}
	get [Symbol.toStringTag]() {
		return "Blob";
	}
}

export class File extends Blob {
	constructor(parts, name, options = {}) {
		super(parts, options);
		this.name = String(name);
		this.lastModified = options.lastModified ?? Date.now();
	}
	get [Symbol.toStringTag]() {
		return "File";
	}
}

export class FormData {
	#pairs = [];
	#held(value, name) {
		if (!(value instanceof Blob)) return String(value);
		return value instanceof File && name === undefined ? value : new File([value], name ?? "blob", { type: value.type });
	}
	append(name, value, file) {
		this.#pairs.push([String(name), this.#held(value, file)]);
	}
	set(name, value, file) {
		this.delete(name);
		this.append(name, value, file);
	}
	delete(name) {
		this.#pairs = this.#pairs.filter(([key]) => key !== name);
	}
	get(name) {
		return this.#pairs.find(([key]) => key === name)?.[1] ?? null;
	}
	getAll(name) {
		return this.#pairs.filter(([key]) => key === name).map(([, value]) => value);
	}
	has(name) {
		return this.#pairs.some(([key]) => key === name);
	}
	forEach(callback, self) {
		for (const [name, value] of this.#pairs) callback.call(self, value, name, this);
	}
	*entries() {
		yield* this.#pairs;
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

	/** The encoded form, with its content type. */
	_encode() {
		const boundary = `----tiller${Math.random().toString(16).slice(2).padEnd(16, "0")}`;
		const quoted = (text) => text.replace(/"/g, "%22").replace(/\r?\n/g, "%0D%0A");
		const parts = [];
		for (const [name, value] of this.#pairs) {
			let head = `--${boundary}\r\nContent-Disposition: form-data; name="${quoted(name)}"`;
			if (value instanceof Blob) {
				head += `; filename="${quoted(value.name)}"\r\nContent-Type: ${value.type || "application/octet-stream"}`;
			}
			parts.push(`${head}\r\n\r\n`, value, "\r\n");
		}
		parts.push(`--${boundary}--\r\n`);
		return { bytes: joined(...parts.map(partBytes)), type: `multipart/form-data; boundary=${boundary}` };
	}
	get [Symbol.toStringTag]() {
		return "FormData";
	}
}
