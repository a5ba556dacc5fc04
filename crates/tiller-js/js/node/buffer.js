// `Buffer`.

import { sync } from "tiller:host";
import { bytesOf, fromLatin1 } from "web:encoding";
import { Blob, File } from "web:blob";

const encodings = ["utf8", "utf-8", "hex", "base64", "base64url", "latin1", "binary", "ascii", "utf16le", "ucs2", "ucs-2", "utf-16le"];

function plain(encoding) {
	const name = String(encoding ?? "utf8").toLowerCase();
	if (encodings.includes(name)) return name.replace("utf-8", "utf8").replace("binary", "latin1").replace(/^(ucs-?2|utf-16le)$/, "utf16le");
	const error = new TypeError(`Unknown encoding: ${encoding}`);
	error.code = "ERR_UNKNOWN_ENCODING";
	throw error;
}

function encode(text, encoding) {
	switch (plain(encoding)) {
		case "utf8":
			return sync("text.encode", text.toWellFormed());
		case "hex": {
			const digits = /^(?:[0-9a-f]{2})*/i.exec(text)[0];
			return Uint8Array.from({ length: digits.length / 2 }, (_, at) => Number.parseInt(digits.slice(at * 2, at * 2 + 2), 16));
		}
		case "base64":
		case "base64url":
			return sync("text.fromBase64", text.toWellFormed());
		case "utf16le": {
			const bytes = new Uint8Array(text.length * 2);
			for (let at = 0; at < text.length; at++) {
				const code = text.charCodeAt(at);
				bytes[at * 2] = code & 255;
				bytes[at * 2 + 1] = code >> 8;
			}
			return bytes;
		}
		default:
			return Uint8Array.from(text, (c) => c.charCodeAt(0) & 255);
	}
}

function decode(bytes, encoding) {
	switch (plain(encoding)) {
		case "utf8":
			return sync("text.decode", {}, bytes);
		case "hex":
			return sync("text.toHex", undefined, bytes);
		case "base64":
			return sync("text.toBase64", undefined, bytes);
		case "base64url":
			return sync("text.toBase64Url", undefined, bytes);
		case "utf16le": {
			let text = "";
			for (let at = 0; at + 1 < bytes.length; at += 2) text += String.fromCharCode(bytes[at] | (bytes[at + 1] << 8));
			return text;
		}
		case "ascii":
			return fromLatin1(bytes.map((byte) => byte & 127));
		default:
			return fromLatin1(bytes);
	}
}

function wrap(bytes) {
	return new Buffer(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function range(name, value) {
	const error = new RangeError(`The value of "${name}" is out of range. Received ${value}`);
	error.code = "ERR_OUT_OF_RANGE";
	return error;
}

export class Buffer extends Uint8Array {
	static poolSize = 8192;

	static get [Symbol.species]() {
		return Buffer;
	}

	static from(value, encodingOrOffset, length) {
		if (typeof value === "string") return wrap(encode(value, encodingOrOffset));
		if (value instanceof ArrayBuffer || (typeof SharedArrayBuffer === "function" && value instanceof SharedArrayBuffer)) {
			return new Buffer(value, encodingOrOffset, length);
		}
		if (ArrayBuffer.isView(value) && !(value instanceof Uint8Array)) return wrap(Uint8Array.from(value));
		if (typeof value === "object" && value !== null) {
			if (value.type === "Buffer" && Array.isArray(value.data)) return wrap(Uint8Array.from(value.data));
			if (typeof value.length === "number" || typeof value[Symbol.iterator] === "function") return wrap(Uint8Array.from(value));
			const primitive = value.valueOf?.();
			if (primitive !== value && primitive !== undefined) return Buffer.from(primitive, encodingOrOffset, length);
		}
		const error = new TypeError("The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object.");
		error.code = "ERR_INVALID_ARG_TYPE";
		throw error;
	}

	static alloc(size, fill, encoding) {
		const buffer = new Buffer(size);
		return fill === undefined || fill === 0 ? buffer : buffer.fill(fill, encoding);
	}
	static allocUnsafe(size) {
		return new Buffer(size);
	}
	static allocUnsafeSlow(size) {
		return new Buffer(size);
	}
	static isBuffer(value) {
		return value instanceof Buffer;
	}
	static isEncoding(name) {
		return encodings.includes(String(name).toLowerCase());
	}
	static byteLength(value, encoding) {
		if (typeof value !== "string") return value.byteLength;
		return encode(value, encoding).length;
	}
	static concat(list, total) {
		const length = total ?? list.reduce((sum, part) => sum + part.length, 0);
		const all = Buffer.alloc(length);
		let at = 0;
		for (const part of list) {
			if (at >= length) break;
			const fits = part.length > length - at ? part.subarray(0, length - at) : part;
			all.set(fits, at);
			at += fits.length;
		}
		return all;
	}
	static compare(a, b) {
		for (let at = 0; at < Math.min(a.length, b.length); at++) {
			if (a[at] !== b[at]) return a[at] < b[at] ? -1 : 1;
		}
		return Math.sign(a.length - b.length);
	}
	static copyBytesFrom(view, offset = 0, length = view.length - offset) {
		return wrap(Uint8Array.from(bytesOf(view.subarray(offset, offset + length))));
	}

	get parent() {
		return this.buffer;
	}
	get offset() {
		return this.byteOffset;
	}
	toString(encoding, start = 0, end = this.length) {
		const part = start === 0 && end >= this.length ? this : this.subarray(start, end);
		return decode(new Uint8Array(part.buffer, part.byteOffset, part.length), encoding);
	}
	[Symbol.for("nodejs.util.inspect.custom")]() {
		const more = this.length > INSPECT_MAX_BYTES ? ` ... ${this.length - INSPECT_MAX_BYTES} more bytes` : "";
		const shown = Array.from(this.subarray(0, INSPECT_MAX_BYTES), (byte) => ` ${byte.toString(16).padStart(2, "0")}`);
		return `<Buffer${shown.join("")}${more}>`;
	}
	toLocaleString(encoding) {
		return this.toString(encoding);
	}
	toJSON() {
		return { type: "Buffer", data: Array.from(this) };
	}
	equals(other) {
		return Buffer.compare(this, other) === 0;
	}
	compare(other, start = 0, end = other.length, ownStart = 0, ownEnd = this.length) {
		return Buffer.compare(this.subarray(ownStart, ownEnd), other.subarray(start, end));
	}
	slice(start, end) {
		return this.subarray(start, end);
	}
	subarray(start, end) {
		const part = new Uint8Array(this.buffer, this.byteOffset, this.length).subarray(start, end);
		return wrap(part);
	}
	copy(target, at = 0, start = 0, end = this.length) {
		const part = this.subarray(start, Math.min(end, start + target.length - at));
		target.set(part, at);
		return part.length;
	}
	write(text, at = 0, length, encoding) {
		if (typeof at === "string") [at, encoding] = [0, at];
		else if (typeof length === "string") [length, encoding] = [undefined, length];
		const room = Math.min(length ?? this.length - at, this.length - at);
		const bytes = encode(text, encoding).subarray(0, room);
		this.set(bytes, at);
		return bytes.length;
	}
	fill(value, start = 0, end = this.length, encoding) {
		if (typeof start === "string") [start, encoding, end] = [0, start, this.length];
		if (typeof end === "string") [end, encoding] = [this.length, end];
		if (typeof value === "number") {
			super.fill(value & 255, start, end);
			return this;
		}
		const bytes = typeof value === "string" ? encode(value, encoding) : value;
		if (bytes.length === 0) return super.fill(0, start, end);
		for (let at = start; at < end; at++) this[at] = bytes[(at - start) % bytes.length];
		return this;
	}
	indexOf(value, from = 0, encoding) {
		if (typeof value === "number") return super.indexOf(value & 255, from);
		const wanted = typeof value === "string" ? encode(value, typeof from === "string" ? from : encoding) : value;
		const first = typeof from === "number" ? (from < 0 ? Math.max(0, this.length + from) : from) : 0;
		outer: for (let at = first; at <= this.length - wanted.length; at++) {
			for (let inner = 0; inner < wanted.length; inner++) if (this[at + inner] !== wanted[inner]) continue outer;
			return at;
		}
		return -1;
	}
	lastIndexOf(value, from = this.length, encoding) {
		if (typeof value === "number") return super.lastIndexOf(value & 255, from);
		const wanted = typeof value === "string" ? encode(value, encoding) : value;
		outer: for (let at = Math.min(from, this.length - wanted.length); at >= 0; at--) {
			for (let inner = 0; inner < wanted.length; inner++) if (this[at + inner] !== wanted[inner]) continue outer;
			return at;
		}
		return -1;
	}
	includes(value, from, encoding) {
		return this.indexOf(value, from, encoding) >= 0;
	}
	swap16() {
		for (let at = 0; at + 1 < this.length; at += 2) [this[at], this[at + 1]] = [this[at + 1], this[at]];
		return this;
	}
	readUIntBE(at, size) {
		let value = 0;
		for (let byte = 0; byte < size; byte++) value = value * 256 + this[at + byte];
		return value;
	}
	readUIntLE(at, size) {
		let value = 0;
		for (let byte = size - 1; byte >= 0; byte--) value = value * 256 + this[at + byte];
		return value;
	}
	readIntBE(at, size) {
		const value = this.readUIntBE(at, size);
		return value >= 2 ** (size * 8 - 1) ? value - 2 ** (size * 8) : value;
	}
	readIntLE(at, size) {
		const value = this.readUIntLE(at, size);
		return value >= 2 ** (size * 8 - 1) ? value - 2 ** (size * 8) : value;
	}
	writeUIntBE(value, at, size) {
		for (let byte = size - 1; byte >= 0; byte--, value = Math.floor(value / 256)) this[at + byte] = value % 256;
		return at + size;
	}
	writeUIntLE(value, at, size) {
		for (let byte = 0; byte < size; byte++, value = Math.floor(value / 256)) this[at + byte] = value % 256;
		return at + size;
	}
	writeIntBE(value, at, size) {
		return this.writeUIntBE(value < 0 ? value + 2 ** (size * 8) : value, at, size);
	}
	writeIntLE(value, at, size) {
		return this.writeUIntLE(value < 0 ? value + 2 ** (size * 8) : value, at, size);
	}
}

// DataView's number types, by node's names.
const numbers = { UInt8: "Uint8", Int8: "Int8", UInt16: "Uint16", Int16: "Int16", UInt32: "Uint32", Int32: "Int32", Float: "Float32", Double: "Float64", BigInt64: "BigInt64", BigUInt64: "BigUint64" };
const widths = { Uint8: 1, Int8: 1, Uint16: 2, Int16: 2, Uint32: 4, Int32: 4, Float32: 4, Float64: 8, BigInt64: 8, BigUint64: 8 };

function viewOf(buffer, at, width) {
	if (!(at >= 0 && at + width <= buffer.length)) throw range("offset", at);
	return new DataView(buffer.buffer, buffer.byteOffset, buffer.length);
}

for (const [name, kind] of Object.entries(numbers)) {
	const width = widths[kind];
	for (const end of width === 1 ? [""] : ["LE", "BE"]) {
		const methods = {
			[`read${name}${end}`](at = 0) {
				return viewOf(this, at, width)[`get${kind}`](at, end === "LE");
			},
			[`write${name}${end}`](value, at = 0) {
				viewOf(this, at, width)[`set${kind}`](at, value, end === "LE");
				return at + width;
			},
		};
		for (const [key, value] of Object.entries(methods)) {
			for (const alias of [key, key.replace("UInt", "Uint")]) {
				Object.defineProperty(Buffer.prototype, alias, { value, writable: true, configurable: true });
			}
		}
	}
}

export const SlowBuffer = Buffer;
export const kMaxLength = 2 ** 31 - 1;
export const kStringMaxLength = 2 ** 29;
export const constants = { MAX_LENGTH: kMaxLength, MAX_STRING_LENGTH: kStringMaxLength };
export const INSPECT_MAX_BYTES = 50;

export function isUtf8(input) {
	try {
		sync("text.decode", { fatal: true }, bytesOf(input));
		return true;
	} catch {
		return false;
	}
}

export function isAscii(input) {
	return bytesOf(input).every((byte) => byte < 128);
}

export function transcode(source, from, to) {
	return Buffer.from(source.toString(from), to);
}

const { atob, btoa } = globalThis;
export { Blob, File, atob, btoa };
export default { Buffer, SlowBuffer, kMaxLength, kStringMaxLength, constants, INSPECT_MAX_BYTES, isUtf8, isAscii, transcode, Blob, File, atob, btoa };
