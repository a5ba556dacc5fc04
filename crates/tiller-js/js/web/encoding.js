// `TextEncoder`, `TextDecoder`, `atob` and `btoa`.

import { sync } from "tiller:host";

export class TextEncoder {
	get encoding() {
		return "utf-8";
	}
	encode(text = "") {
		return sync("text.encode", String(text).toWellFormed());
	}
	encodeInto(text, into) {
		let read = 0;
		let written = 0;
		for (const character of String(text)) {
			const bytes = this.encode(character);
			if (written + bytes.length > into.length) break;
			into.set(bytes, written);
			written += bytes.length;
			read += character.length;
		}
		return { read, written };
	}
}

const labels = {
	"utf-8": ["utf-8", "utf8", "unicode-1-1-utf-8"],
	"utf-16le": ["utf-16le", "utf-16", "ucs-2", "unicode"],
	"windows-1252": ["windows-1252", "latin1", "iso-8859-1", "ascii", "us-ascii", "binary"],
};

export class TextDecoder {
	#rest = new Uint8Array(0);
	#atStart = true;

	constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
		const wanted = String(label).trim().toLowerCase();
		const known = Object.keys(labels).find((name) => labels[name].includes(wanted));
		if (!known) {
			const error = new RangeError(`The "${label}" encoding is not supported`);
			error.code = "ERR_ENCODING_NOT_SUPPORTED";
			throw error;
		}
		this.encoding = known;
		this.fatal = fatal;
		this.ignoreBOM = ignoreBOM;
	}

	decode(input, { stream = false } = {}) {
		let bytes = bytesOf(input);
		if (this.#rest.length > 0) bytes = joined(this.#rest, bytes);
		this.#rest = new Uint8Array(0);
		if (stream) {
			const complete = bytes.length - unfinished(this.encoding, bytes);
			this.#rest = bytes.slice(complete);
			bytes = bytes.subarray(0, complete);
		}
		let text;
		if (this.encoding === "utf-8") text = sync("text.decode", { fatal: this.fatal }, bytes);
		else if (this.encoding === "utf-16le") text = fromUtf16(bytes);
		else text = fromLatin1(bytes);
		if (this.#atStart && !this.ignoreBOM && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
		this.#atStart = stream ? this.#atStart && text.length === 0 : true;
		return text;
	}
}

export function bytesOf(input) {
	if (input === undefined) return new Uint8Array(0);
	if (input instanceof Uint8Array) return input;
	if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
	return new Uint8Array(input);
}

export function joined(...parts) {
	const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
	let at = 0;
	for (const part of parts) {
		all.set(part, at);
		at += part.length;
	}
	return all;
}

/** How many bytes at the end are an incomplete character. */
function unfinished(encoding, bytes) {
	if (encoding === "utf-16le") return bytes.length % 2;
	if (encoding !== "utf-8") return 0;
	for (let back = 1; back <= Math.min(3, bytes.length); back++) {
		const byte = bytes[bytes.length - back];
		if (byte < 0x80) return 0;
		if (byte >= 0xc0) {
			const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
			return length > back ? back : 0;
		}
	}
	return 0;
}

function fromUtf16(bytes) {
	let text = "";
	for (let at = 0; at + 1 < bytes.length; at += 2) text += String.fromCharCode(bytes[at] | (bytes[at + 1] << 8));
	return text;
}

export function fromLatin1(bytes) {
	let text = "";
	for (let at = 0; at < bytes.length; at += 4096) text += String.fromCharCode(...bytes.subarray(at, at + 4096));
	return text;
}

export function btoa(text) {
	const bytes = new Uint8Array(String(text).length);
	for (let at = 0; at < bytes.length; at++) {
		const code = String(text).charCodeAt(at);
		if (code > 255) throw new DOMException("Invalid character", "InvalidCharacterError");
		bytes[at] = code;
	}
	return sync("text.toBase64", undefined, bytes);
}

export function atob(text) {
	const clean = String(text).replace(/[\t\n\f\r ]/g, "");
	if (!/^[A-Za-z0-9+/]*={0,2}$/.test(clean) || clean.replace(/=+$/, "").length % 4 === 1) {
		throw new DOMException("The string to be decoded is not correctly encoded.", "InvalidCharacterError");
	}
	return fromLatin1(sync("text.fromBase64", clean));
}
