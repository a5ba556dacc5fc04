// `crypto`: digests, random bytes, and functions that need no keys.

import { sync } from "tiller:host";
import { Buffer } from "node:buffer";
import { data } from "tiller:files";
import { crypto as webcrypto, getRandomValues, randomUUID, subtle } from "web:crypto";

export { webcrypto, getRandomValues, randomUUID, subtle };

const hex = (bytes) => sync("text.toHex", undefined, bytes);
const buffer = (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const out = (bytes, encoding) => (encoding && encoding !== "buffer" ? buffer(bytes).toString(encoding) : buffer(bytes));

class Digest {
	_parts = [];
	_done = false;
	update(value, encoding) {
		if (this._done) throw Object.assign(new Error("Digest already called"), { code: "ERR_CRYPTO_HASH_FINALIZED" });
		this._parts.push(Buffer.from(data(value, encoding)));
		return this;
	}
	write(value, encoding) {
		this.update(value, encoding);
		return true;
	}
	end(value, encoding) {
		if (value !== undefined) this.update(value, encoding);
	}
	digest(encoding) {
		this._done = true;
		return out(this._finish(Buffer.concat(this._parts)), encoding);
	}
}

export class Hash extends Digest {
	constructor(algorithm) {
		super();
		this.algorithm = String(algorithm);
		sync("crypto.hash", this.algorithm, new Uint8Array(0));
	}
	_finish(bytes) {
		return sync("crypto.hash", this.algorithm, bytes);
	}
	copy() {
		const other = new Hash(this.algorithm);
		other._parts = [...this._parts];
		return other;
	}
}

export class Hmac extends Digest {
	constructor(algorithm, key) {
		super();
		this.algorithm = String(algorithm);
		this.key = hex(key instanceof KeyObject ? key._bytes : data(key));
	}
	_finish(bytes) {
		return sync("crypto.hmac", { algorithm: this.algorithm, key: this.key }, bytes);
	}
}

export class KeyObject {
	constructor(bytes) {
		this.type = "secret";
		this._bytes = bytes;
	}
	export() {
		return buffer(this._bytes);
	}
}

export const createHash = (algorithm) => new Hash(algorithm);
export const createHmac = (algorithm, key) => new Hmac(algorithm, key);
export const createSecretKey = (key, encoding) => new KeyObject(data(key, encoding));
export const hash = (algorithm, value, encoding = "hex") => createHash(algorithm).update(value).digest(encoding);
export const getHashes = () => ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];
export const getCiphers = () => [];
export const getCurves = () => [];

export function randomBytes(size, callback) {
	const bytes = buffer(sync("crypto.random", size));
	if (!callback) return bytes;
	setTimeout(callback, 0, null, bytes);
}

export function randomFillSync(into, offset = 0, size = into.byteLength - offset) {
	new Uint8Array(into.buffer, into.byteOffset + offset, size).set(sync("crypto.random", size));
	return into;
}

export function randomFill(into, ...args) {
	const callback = args.pop();
	setTimeout(callback, 0, null, randomFillSync(into, ...args));
}

export function randomInt(min, max, callback) {
	const [low, high, done] = typeof max === "number" ? [min, max, callback] : [0, min, max];
	const span = high - low;
	let value;
	do {
		value = buffer(sync("crypto.random", 6)).readUIntBE(0, 6);
	} while (value >= 2 ** 48 - (2 ** 48 % span));
	const result = low + (value % span);
	if (!done) return result;
	setTimeout(done, 0, null, result);
}

export function timingSafeEqual(a, b) {
	if (a.byteLength !== b.byteLength) {
		throw Object.assign(new RangeError("Input buffers must have the same byte length"), { code: "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH" });
	}
	return sync("crypto.equal", hex(data(b)), data(a));
}

export function pbkdf2Sync(password, salt, iterations, length, algorithm) {
	return buffer(sync("crypto.pbkdf2", { algorithm, salt: hex(data(salt)), iterations, length }, data(password)));
}

export function pbkdf2(...args) {
	const callback = args.pop();
	try {
		const key = pbkdf2Sync(...args);
		setTimeout(callback, 0, null, key);
	} catch (error) {
		setTimeout(callback, 0, error);
	}
}

export function hkdfSync(algorithm, key, salt, info, length) {
	const mac = (key, bytes) => sync("crypto.hmac", { algorithm, key: hex(key) }, bytes);
	const seed = mac(data(salt), data(key));
	const parts = [];
	let last = new Uint8Array(0);
	for (let block = 1; Buffer.concat(parts).length < length; block++) {
		last = mac(seed, Buffer.concat([last, data(info), Uint8Array.of(block)]));
		parts.push(last);
	}
	return Buffer.concat(parts, length).buffer;
}

/** Functions that need more than digests exist, and throw when called. */
function unsupported(name) {
	return () => {
		throw Object.assign(new Error(`crypto.${name} is not supported inside tiller`), { code: "ERR_TILLER_UNSUPPORTED" });
	};
}

export const createCipheriv = unsupported("createCipheriv");
export const createDecipheriv = unsupported("createDecipheriv");
export const createSign = unsupported("createSign");
export const createVerify = unsupported("createVerify");
export const createPublicKey = unsupported("createPublicKey");
export const createPrivateKey = unsupported("createPrivateKey");
export const createDiffieHellman = unsupported("createDiffieHellman");
export const createECDH = unsupported("createECDH");
export const generateKeyPairSync = unsupported("generateKeyPairSync");
export const generateKeyPair = unsupported("generateKeyPair");
export const generateKeySync = unsupported("generateKeySync");
export const sign = unsupported("sign");
export const verify = unsupported("verify");
export const publicEncrypt = unsupported("publicEncrypt");
export const privateDecrypt = unsupported("privateDecrypt");
export const scryptSync = unsupported("scryptSync");
export const scrypt = unsupported("scrypt");
export class X509Certificate {
	constructor() {
		unsupported("X509Certificate")();
	}
}
export const constants = {};
