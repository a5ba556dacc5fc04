// Shared by all file functions: arguments, flags and `Stats`.

import { Buffer } from "node:buffer";
import { fileURLToPath } from "node:url";

export const constants = {
	F_OK: 0, X_OK: 1, W_OK: 2, R_OK: 4,
	COPYFILE_EXCL: 1, COPYFILE_FICLONE: 2, COPYFILE_FICLONE_FORCE: 4,
	O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024, O_NOFOLLOW: 131072, O_DIRECTORY: 65536, O_SYNC: 1052672, O_NONBLOCK: 2048,
	S_IFMT: 61440, S_IFREG: 32768, S_IFDIR: 16384, S_IFLNK: 40960,
	S_IRWXU: 448, S_IRUSR: 256, S_IWUSR: 128, S_IXUSR: 64, S_IRWXG: 56, S_IRWXO: 7,
};

function wrongType(name, value) {
	const error = new TypeError(`The "${name}" argument must be of type string or an instance of Buffer or URL. Received ${value === null ? "null" : typeof value}`);
	error.code = "ERR_INVALID_ARG_TYPE";
	return error;
}

/** A path as written, without resolving it: the target of a link stays as it is. */
export function writtenText(path) {
	if (typeof path === "string") return path;
	if (path instanceof Uint8Array) return new TextDecoder().decode(path);
	if (typeof path === "object" && path !== null && typeof path.href === "string") return fileURLToPath(path);
	throw wrongType("path", path);
}

/** A path as text, resolved against the session's folder. */
export function pathText(path) {
	const text = writtenText(path);
	if (text.startsWith("/")) return text;
	const folder = globalThis.process.cwd();
	return text === "" ? folder : `${folder}/${text}`;
}

export function fileArgs(path) {
	return typeof path === "number" ? { fd: path } : { path: pathText(path) };
}

export function modeNumber(mode) {
	if (mode === undefined || mode === null) return undefined;
	return typeof mode === "string" ? Number.parseInt(mode, 8) : Number(mode);
}

/** Flags as letters, also if they were given as numbers. */
export function openFlags(flag) {
	if (typeof flag === "string") return flag;
	const has = (bit) => (flag & bit) !== 0;
	const base = has(constants.O_APPEND) ? "a" : has(constants.O_TRUNC) || has(constants.O_CREAT) ? "w" : "r";
	const exclusive = has(constants.O_EXCL) ? "x" : "";
	if (base === "r") return has(constants.O_RDWR) || has(constants.O_WRONLY) ? "r+" : "r";
	return `${base}${exclusive}${has(constants.O_RDWR) ? "+" : ""}`;
}

/** Data to write, as bytes. */
export function data(value, encoding) {
	if (typeof value === "string") return Buffer.from(value, encoding ?? "utf8");
	if (value instanceof Uint8Array) return value;
	if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
	if (typeof value === "number" || typeof value === "boolean" || value === undefined || value === null) throw wrongType("data", value);
	return Buffer.from(String(value));
}

/** Data that was read, as text if the options say so. */
export function decoded(bytes, options) {
	const encoding = typeof options === "string" ? options : options?.encoding;
	const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
	return encoding && encoding !== "buffer" ? buffer.toString(encoding) : buffer;
}

class Kind {
	#kind;
	constructor(kind) {
		this.#kind = kind;
	}
	isFile() {
		return this.#kind === "file";
	}
	isDirectory() {
		return this.#kind === "dir";
	}
	isSymbolicLink() {
		return this.#kind === "link";
	}
	isFIFO() {
		return this.#kind === "fifo";
	}
	isSocket() {
		return this.#kind === "socket";
	}
	isBlockDevice() {
		return this.#kind === "block";
	}
	isCharacterDevice() {
		return this.#kind === "char";
	}
}

export class Stats extends Kind {
	constructor({ kind, ...fields }, bigint = false) {
		super(kind);
		for (const [name, value] of Object.entries(fields)) this[name] = bigint ? BigInt(Math.trunc(value)) : value;
		for (const name of ["atime", "mtime", "ctime", "birthtime"]) {
			this[name] = new Date(fields[`${name}Ms`]);
			if (bigint) this[`${name}Ns`] = BigInt(Math.round(fields[`${name}Ms`] * 1e6));
		}
	}
}

export class Dirent extends Kind {
	constructor(name, kind, folder) {
		super(kind);
		const slash = name.lastIndexOf("/");
		this.name = name.slice(slash + 1);
		this.parentPath = slash < 0 ? folder : `${folder}/${name.slice(0, slash)}`;
		this.path = this.parentPath;
	}
}
