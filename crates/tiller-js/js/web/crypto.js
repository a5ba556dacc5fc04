// Web `crypto`, as far as extensions use it.

import { sync } from "tiller:host";
import { bytesOf } from "web:encoding";

export function randomUUID() {
	const bytes = sync("crypto.random", 16);
	bytes[6] = (bytes[6] & 0x0f) | 0x40;
	bytes[8] = (bytes[8] & 0x3f) | 0x80;
	const hex = sync("text.toHex", undefined, bytes);
	return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

export function getRandomValues(array) {
	const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
	bytes.set(sync("crypto.random", bytes.length));
	return array;
}

function unsupported(name) {
	return async () => {
		throw new DOMException(`crypto.subtle.${name} is not supported inside tiller`, "NotSupportedError");
	};
}

function hex(bytes) {
	return sync("text.toHex", undefined, bytesOf(bytes));
}

const nameOf = (algorithm) => (typeof algorithm === "string" ? algorithm : algorithm.name);
const hashOf = (key) => nameOf(key.algorithm.hash);

export const subtle = {
	async digest(algorithm, data) {
		return sync("crypto.hash", nameOf(algorithm), bytesOf(data)).buffer;
	},
	async importKey(format, data, algorithm, extractable, usages) {
		if (format !== "raw" || nameOf(algorithm) !== "HMAC") return unsupported("importKey")();
		return { type: "secret", algorithm, extractable, usages, _raw: bytesOf(data) };
	},
	async sign(_algorithm, key, data) {
		if (!key._raw) return unsupported("sign")();
		return sync("crypto.hmac", { algorithm: hashOf(key), key: hex(key._raw) }, bytesOf(data)).buffer;
	},
	async verify(algorithm, key, signature, data) {
		const right = new Uint8Array(await subtle.sign(algorithm, key, data));
		return sync("crypto.equal", hex(signature), right);
	},
	encrypt: unsupported("encrypt"),
	decrypt: unsupported("decrypt"),
	generateKey: unsupported("generateKey"),
	deriveBits: unsupported("deriveBits"),
	deriveKey: unsupported("deriveKey"),
	exportKey: unsupported("exportKey"),
};

export const crypto = { randomUUID, getRandomValues, subtle };
export const Crypto = Object;
