// `zlib`: compression of whole buffers; the streams collect all input first.

import { ask, sync } from "tiller:host";
import { Buffer } from "node:buffer";
import { data } from "tiller:files";
import { Transform } from "node:stream";

const buffer = (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const options = (given) => ({ level: given?.level >= 0 ? given.level : undefined });

const atOnce = (name) => (input, given) => buffer(sync(`zlib.${name}`, options(given), data(input)));
const later = (name) => (input, given, callback) => {
	const done = typeof given === "function" ? given : callback;
	ask(`zlib.${name}`, options(given), data(input)).then((bytes) => done(null, buffer(bytes)), (error) => done(error));
};

class Codec extends Transform {
	#parts = [];
	constructor(name, given) {
		super();
		this.name = name;
		this.given = given;
	}
	_transform(chunk, _encoding, callback) {
		this.#parts.push(chunk);
		callback();
	}
	_flush(callback) {
		ask(`zlib.${this.name}`, options(this.given), Buffer.concat(this.#parts)).then((bytes) => callback(null, buffer(bytes)), callback);
	}
}

const stream = (name) => (given) => new Codec(name, given);

export const gzipSync = atOnce("gzip");
export const gunzipSync = atOnce("gunzip");
export const deflateSync = atOnce("deflate");
export const inflateSync = atOnce("inflate");
export const deflateRawSync = atOnce("deflateRaw");
export const inflateRawSync = atOnce("inflateRaw");
export const unzipSync = atOnce("unzip");
export const gzip = later("gzip");
export const gunzip = later("gunzip");
export const deflate = later("deflate");
export const inflate = later("inflate");
export const deflateRaw = later("deflateRaw");
export const inflateRaw = later("inflateRaw");
export const unzip = later("unzip");
export const createGzip = stream("gzip");
export const createGunzip = stream("gunzip");
export const createDeflate = stream("deflate");
export const createInflate = stream("inflate");
export const createDeflateRaw = stream("deflateRaw");
export const createInflateRaw = stream("inflateRaw");
export const createUnzip = stream("unzip");

function noBrotli() {
	throw Object.assign(new Error("Brotli is not supported inside tiller"), { code: "ERR_TILLER_UNSUPPORTED" });
}
export const brotliCompressSync = noBrotli;
export const brotliDecompressSync = noBrotli;
export const brotliCompress = noBrotli;
export const brotliDecompress = noBrotli;
export const createBrotliCompress = noBrotli;
export const createBrotliDecompress = noBrotli;

const table = Array.from({ length: 256 }, (_, number) => {
	let value = number;
	for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
	return value >>> 0;
});

export function crc32(input, start = 0) {
	let value = ~start;
	for (const byte of data(input)) value = table[(value ^ byte) & 255] ^ (value >>> 8);
	return ~value >>> 0;
}

export const constants = { Z_NO_COMPRESSION: 0, Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1, Z_SYNC_FLUSH: 2, Z_FINISH: 4, BROTLI_PARAM_QUALITY: 1, BROTLI_OPERATION_FLUSH: 1 };
