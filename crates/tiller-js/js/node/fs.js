// File functions: synchronous and with callbacks; those with promises are in `node:fs/promises`.

import { sync } from "tiller:host";
import { EventEmitter } from "node:events";
import { createReadStream, createWriteStream, ReadStream, WriteStream } from "tiller:file-streams";
import { constants, Dirent, Stats, data, fileArgs, modeNumber, openFlags, pathText, decoded, writtenText } from "tiller:files";
import * as promised from "node:fs/promises";

export { constants, Dirent, Stats, createReadStream, createWriteStream, ReadStream, WriteStream };
export { promised as promises };
const { F_OK, R_OK, W_OK, X_OK } = constants;
export { F_OK, R_OK, W_OK, X_OK };

export function existsSync(path) {
	try {
		return sync("fs.exists", { path: pathText(path) });
	} catch {
		return false;
	}
}

export function readFileSync(path, options) {
	const bytes = sync("fs.readFile", fileArgs(path));
	return decoded(bytes, options);
}

export function writeFileSync(path, value, options) {
	const { encoding, flag, mode } = typeof options === "string" ? { encoding: options } : (options ?? {});
	sync("fs.writeFile", { ...fileArgs(path), flag: openFlags(flag ?? "w"), mode: modeNumber(mode) }, data(value, encoding));
}

export function appendFileSync(path, value, options) {
	const more = typeof options === "string" ? { encoding: options } : options;
	writeFileSync(path, value, { flag: "a", ...more });
}

function stat(name, path, { throwIfNoEntry = true, bigint = false } = {}) {
	try {
		return new Stats(sync(`fs.${name}`, { path: pathText(path) }), bigint);
	} catch (error) {
		if (!throwIfNoEntry && error.code === "ENOENT") return undefined;
		throw error;
	}
}

export const statSync = (path, options) => stat("stat", path, options);
export const lstatSync = (path, options) => stat("lstat", path, options);
export const fstatSync = (fd, options) => new Stats(sync("fs.stat", { fd }), options?.bigint);

export function readdirSync(path, options) {
	const { withFileTypes = false, recursive = false } = typeof options === "object" && options !== null ? options : {};
	const folder = pathText(path);
	const found = sync("fs.readdir", { path: folder, recursive });
	return withFileTypes ? found.map(([name, kind]) => new Dirent(name, kind, folder)) : found.map(([name]) => name);
}

export function mkdirSync(path, options) {
	const { recursive = false, mode } = typeof options === "object" && options !== null ? options : { mode: options };
	return sync("fs.mkdir", { path: pathText(path), recursive, mode: modeNumber(mode) });
}

export const mkdtempSync = (prefix) => writtenText(prefix) + sync("fs.mkdtemp", { path: pathText(prefix) }).slice(-6);
export const rmdirSync = (path, { recursive = false } = {}) => sync("fs.rmdir", { path: pathText(path), recursive });
export const rmSync = (path, { recursive = false, force = false } = {}) => sync("fs.rm", { path: pathText(path), recursive, force });
export const unlinkSync = (path) => sync("fs.unlink", { path: pathText(path) });
export const renameSync = (from, to) => sync("fs.rename", { path: pathText(from), to: pathText(to) });
export const copyFileSync = (from, to, mode = 0) => sync("fs.copyFile", { path: pathText(from), to: pathText(to), exclusive: (mode & 1) !== 0 });
export const cpSync = (from, to, { recursive = false, force = true } = {}) => sync("fs.cp", { path: pathText(from), to: pathText(to), recursive, force });
export const symlinkSync = (target, path) => sync("fs.symlink", { path: writtenText(target), to: pathText(path) });
export const linkSync = (from, to) => sync("fs.link", { path: pathText(from), to: pathText(to) });
export const readlinkSync = (path) => sync("fs.readlink", { path: pathText(path) });
export const realpathSync = Object.assign((path) => sync("fs.realpath", { path: pathText(path) }), { native: (path) => sync("fs.realpath", { path: pathText(path) }) });
export const chmodSync = (path, mode) => sync("fs.chmod", { path: pathText(path), mode: modeNumber(mode) });
export const chownSync = () => {};
export const lchownSync = () => {};
export const fchmodSync = () => {};
export const accessSync = (path, mode = 0) => sync("fs.access", { path: pathText(path), mode });
export const truncateSync = (path, length = 0) => sync("fs.truncate", { path: pathText(path), length });
export const utimesSync = (path, atime, mtime) => sync("fs.utimes", { path: pathText(path), atime: Number(atime instanceof Date ? atime / 1000 : atime), mtime: Number(mtime instanceof Date ? mtime / 1000 : mtime) });
export const lutimesSync = utimesSync;
export const openSync = (path, flag = "r", mode) => sync("fs.open", { path: pathText(path), flag: openFlags(flag), mode: modeNumber(mode) });
export const closeSync = (fd) => sync("fs.close", { fd });
export const fsyncSync = (fd) => sync("fs.fsync", { fd });
export const fdatasyncSync = fsyncSync;
export const ftruncateSync = (fd, length = 0) => sync("fs.truncate", { fd, length });
export const futimesSync = () => {};
export const statfsSync = (path) => sync("fs.statfs", { path: pathText(path) });

export function readSync(fd, buffer, offset, length, position) {
	if (typeof offset === "object" && offset !== null) ({ offset, length, position } = offset);
	const start = offset ?? 0;
	const wanted = length ?? buffer.byteLength - start;
	const at = typeof position === "number" && position >= 0 ? position : undefined;
	const bytes = sync("fs.read", { fd, length: wanted, position: at });
	new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength).set(bytes, start);
	return bytes.length;
}

export function writeSync(fd, value, offset, length, position) {
	if (typeof value === "string") {
		const at = typeof offset === "number" ? offset : undefined;
		return sync("fs.write", { fd, position: at }, data(value, typeof length === "string" ? length : undefined));
	}
	const start = offset ?? 0;
	const part = new Uint8Array(value.buffer, value.byteOffset + start, length ?? value.byteLength - start);
	return sync("fs.write", { fd, position: typeof position === "number" ? position : undefined }, part);
}

export function opendirSync(path) {
	return promised.openedDir(path);
}

// Turns the promise function of the same name into one with a callback.
function byCallback(name) {
	return (...args) => {
		const callback = args.pop();
		if (typeof callback !== "function") {
			const error = new TypeError('The "cb" argument must be of type function. Received undefined');
			error.code = "ERR_INVALID_ARG_TYPE";
			throw error;
		}
		promised[name](...args).then(
			(value) => setTimeout(callback, 0, null, value),
			(error) => setTimeout(callback, 0, error),
		);
	};
}

export const readFile = byCallback("readFile");
export const writeFile = byCallback("writeFile");
export const appendFile = byCallback("appendFile");
const stat_ = byCallback("stat");
export const lstat = byCallback("lstat");
export const readdir = byCallback("readdir");
export const mkdir = byCallback("mkdir");
export const mkdtemp = byCallback("mkdtemp");
export const rmdir = byCallback("rmdir");
export const rm = byCallback("rm");
export const unlink = byCallback("unlink");
export const rename = byCallback("rename");
export const copyFile = byCallback("copyFile");
export const cp = byCallback("cp");
export const symlink = byCallback("symlink");
export const link = byCallback("link");
export const readlink = byCallback("readlink");
export const realpath = Object.assign(byCallback("realpath"), { native: byCallback("realpath") });
export const chmod = byCallback("chmod");
export const chown = byCallback("chown");
export const access = byCallback("access");
export const truncate = byCallback("truncate");
export const utimes = byCallback("utimes");
export const opendir = byCallback("opendir");
export { stat_ as stat };

const soon = (callback, work) => {
	let result;
	try {
		result = work();
	} catch (error) {
		setTimeout(callback, 0, error);
		return;
	}
	setTimeout(callback, 0, null, result);
};

export function exists(path, callback) {
	setTimeout(callback, 0, existsSync(path));
}
export function open(path, ...args) {
	const callback = args.pop();
	soon(callback, () => openSync(path, ...args));
}
export const close = (fd, callback = () => {}) => soon(callback, () => closeSync(fd));
export const fsync = (fd, callback) => soon(callback, () => fsyncSync(fd));
export const fstat = (fd, ...args) => soon(args.pop(), () => fstatSync(fd));
export const ftruncate = (fd, ...args) => soon(args.pop(), () => ftruncateSync(fd, ...args));
export function read(fd, buffer, ...args) {
	const callback = args.pop();
	soon((error, count) => callback(error, count, buffer), () => readSync(fd, buffer, ...args));
}
export function write(fd, value, ...args) {
	const callback = args.pop();
	soon((error, count) => callback(error, count, value), () => writeSync(fd, value, ...args));
}

// Watching polls: there is no file notification, and no event can be lost.
const LOOK_MS = 200;

function seen(path) {
	let own;
	try {
		own = sync("fs.stat", { path });
	} catch {
		return new Map();
	}
	const found = new Map([["", `${own.mtimeMs}:${own.size}:${own.ino}`]]);
	if (own.kind !== "dir") return found;
	for (const [name] of sync("fs.readdir", { path, recursive: false })) {
		try {
			const { mtimeMs, size, ino } = sync("fs.stat", { path: `${path}/${name}` });
			found.set(name, `${mtimeMs}:${size}:${ino}`);
		} catch {
			// Deleted between the two calls.
		}
	}
	return found;
}

function watched(path) {
	try {
		return statSync(path);
	} catch (error) {
		error.message = error.message.replace(", stat ", ", watch ");
		throw Object.assign(error, { syscall: "watch", filename: path });
	}
}

export class FSWatcher extends EventEmitter {
	#timer;
	constructor(path) {
		super();
		const isFolder = watched(path).isDirectory();
		const base = path.slice(path.lastIndexOf("/") + 1);
		let before = seen(path);
		this.#timer = setInterval(() => {
			const now = seen(path);
			for (const name of new Set([...before.keys(), ...now.keys()])) {
				if (before.get(name) === now.get(name) || (isFolder && name === "")) continue;
				const kind = before.has(name) && now.has(name) ? "change" : "rename";
				this.emit("change", kind, isFolder ? name : base);
			}
			before = now;
		}, LOOK_MS);
	}
	close() {
		clearInterval(this.#timer);
		setTimeout(() => this.emit("close"), 0);
	}
	ref() {
		return this;
	}
	unref() {
		return this;
	}
}

export function watch(path, options, listener) {
	const callback = typeof options === "function" ? options : listener;
	const watcher = new FSWatcher(pathText(path));
	if (callback) watcher.on("change", callback);
	options?.signal?.addEventListener("abort", () => watcher.close(), { once: true });
	return watcher;
}

const watchedFiles = new Map();

export function watchFile(path, options, listener) {
	const callback = typeof options === "function" ? options : listener;
	const current = () => statSync(path, { throwIfNoEntry: false }) ?? new Stats({ kind: "file", mode: 0, size: 0, mtimeMs: 0, atimeMs: 0, ctimeMs: 0, birthtimeMs: 0 });
	let before = current();
	const timer = setInterval(() => {
		const now = current();
		if (now.mtimeMs !== before.mtimeMs || now.size !== before.size) callback(now, before);
		before = now;
	}, options?.interval ?? 5007);
	const key = pathText(path);
	watchedFiles.set(key, [...(watchedFiles.get(key) ?? []), { callback, timer }]);
	return { ref() {}, unref() {} };
}

export function unwatchFile(path, callback) {
	const key = pathText(path);
	const rest = [];
	for (const watched of watchedFiles.get(key) ?? []) {
		if (callback && watched.callback !== callback) rest.push(watched);
		else clearInterval(watched.timer);
	}
	watchedFiles.set(key, rest);
}

export function globSync(pattern, { cwd = globalThis.process.cwd() } = {}) {
	return promised.globbed(pattern, cwd);
}

