// File functions as promises. The work is done on another thread.

import { ask, sync } from "tiller:host";
import { Buffer } from "node:buffer";
import { constants, data, decoded, Dirent, fileArgs, modeNumber, openFlags, pathText, Stats, writtenText } from "tiller:files";
import { globPattern } from "node:path";

export { constants };

export async function readFile(path, options) {
	options?.signal?.throwIfAborted();
	if (path instanceof FileHandle) return path.readFile(options);
	return decoded(await ask("fs.readFile", fileArgs(path)), options);
}

export async function writeFile(path, value, options) {
	const { encoding, flag, mode, signal } = typeof options === "string" ? { encoding: options } : (options ?? {});
	signal?.throwIfAborted();
	if (path instanceof FileHandle) return path.writeFile(value, options);
	let whole = value;
	if (typeof value === "object" && value !== null && !ArrayBuffer.isView(value) && value[Symbol.asyncIterator]) {
		const parts = [];
		for await (const part of value) parts.push(Buffer.from(data(part, encoding)));
		whole = Buffer.concat(parts);
	}
	await ask("fs.writeFile", { ...fileArgs(path), flag: openFlags(flag ?? "w"), mode: modeNumber(mode) }, data(whole, encoding));
}

export async function appendFile(path, value, options) {
	const more = typeof options === "string" ? { encoding: options } : options;
	return writeFile(path, value, { flag: "a", ...more });
}

export const stat = async (path, options) => new Stats(await ask("fs.stat", { path: pathText(path) }), options?.bigint);
export const lstat = async (path, options) => new Stats(await ask("fs.lstat", { path: pathText(path) }), options?.bigint);

export async function readdir(path, options) {
	const { withFileTypes = false, recursive = false } = typeof options === "object" && options !== null ? options : {};
	const folder = pathText(path);
	const found = await ask("fs.readdir", { path: folder, recursive });
	return withFileTypes ? found.map(([name, kind]) => new Dirent(name, kind, folder)) : found.map(([name]) => name);
}

export async function mkdir(path, options) {
	const { recursive = false, mode } = typeof options === "object" && options !== null ? options : { mode: options };
	return ask("fs.mkdir", { path: pathText(path), recursive, mode: modeNumber(mode) });
}

export const mkdtemp = async (prefix) => writtenText(prefix) + (await ask("fs.mkdtemp", { path: pathText(prefix) })).slice(-6);
export const rmdir = async (path, { recursive = false } = {}) => ask("fs.rmdir", { path: pathText(path), recursive });
export const rm = async (path, { recursive = false, force = false } = {}) => ask("fs.rm", { path: pathText(path), recursive, force });
export const unlink = async (path) => ask("fs.unlink", { path: pathText(path) });
export const rename = async (from, to) => ask("fs.rename", { path: pathText(from), to: pathText(to) });
export const copyFile = async (from, to, mode = 0) => ask("fs.copyFile", { path: pathText(from), to: pathText(to), exclusive: (mode & 1) !== 0 });
export const cp = async (from, to, { recursive = false, force = true } = {}) => ask("fs.cp", { path: pathText(from), to: pathText(to), recursive, force });
export const symlink = async (target, path) => ask("fs.symlink", { path: writtenText(target), to: pathText(path) });
export const link = async (from, to) => ask("fs.link", { path: pathText(from), to: pathText(to) });
export const readlink = async (path) => ask("fs.readlink", { path: pathText(path) });
export const realpath = async (path) => ask("fs.realpath", { path: pathText(path) });
export const chmod = async (path, mode) => ask("fs.chmod", { path: pathText(path), mode: modeNumber(mode) });
export const chown = async () => {};
export const lchown = async () => {};
export const access = async (path, mode = 0) => ask("fs.access", { path: pathText(path), mode });
export const truncate = async (path, length = 0) => ask("fs.truncate", { path: pathText(path), length });
const seconds = (time) => Number(time instanceof Date ? time / 1000 : time);
export const utimes = async (path, atime, mtime) => ask("fs.utimes", { path: pathText(path), atime: seconds(atime), mtime: seconds(mtime) });
export const statfs = async (path) => ask("fs.statfs", { path: pathText(path) });

export class FileHandle {
	constructor(fd) {
		this.fd = fd;
	}
	async read(buffer, offset = 0, length, position) {
		let into = buffer;
		if (into === undefined || !ArrayBuffer.isView(into)) {
			({ buffer: into = Buffer.alloc(16384), offset = 0, length, position } = buffer ?? {});
		}
		const at = typeof position === "number" && position >= 0 ? position : undefined;
		const bytes = await ask("fs.read", { fd: this.fd, length: length ?? into.byteLength - offset, position: at });
		new Uint8Array(into.buffer, into.byteOffset, into.byteLength).set(bytes, offset);
		return { bytesRead: bytes.length, buffer: into };
	}
	async write(value, offset, length, position) {
		if (typeof value === "string") {
			const at = typeof offset === "number" ? offset : undefined;
			return { bytesWritten: await ask("fs.write", { fd: this.fd, position: at }, data(value)), buffer: value };
		}
		const start = offset ?? 0;
		const part = new Uint8Array(value.buffer, value.byteOffset + start, length ?? value.byteLength - start);
		return { bytesWritten: await ask("fs.write", { fd: this.fd, position: position ?? undefined }, part), buffer: value };
	}
	async readFile(options) {
		return decoded(await ask("fs.readFile", { fd: this.fd }), options);
	}
	async writeFile(value, options) {
		await ask("fs.writeFile", { fd: this.fd }, data(value, options?.encoding ?? options));
	}
	async appendFile(value, options) {
		return this.writeFile(value, options);
	}
	async stat() {
		return new Stats(await ask("fs.stat", { fd: this.fd }));
	}
	async truncate(length = 0) {
		await ask("fs.truncate", { fd: this.fd, length });
	}
	async sync() {
		await ask("fs.fsync", { fd: this.fd });
	}
	async datasync() {
		await ask("fs.fsync", { fd: this.fd });
	}
	async close() {
		if (this.fd < 0) return;
		const fd = this.fd;
		this.fd = -1;
		await ask("fs.close", { fd });
	}
	async chmod() {}
	async utimes() {}
	async *readLines() {
		for (const line of (await this.readFile("utf8")).split(/\r?\n/)) yield line;
	}
	async [Symbol.asyncDispose]() {
		await this.close();
	}
}

export async function open(path, flag = "r", mode) {
	return new FileHandle(await ask("fs.open", { path: pathText(path), flag: openFlags(flag), mode: modeNumber(mode) }));
}

/** A folder that is read entry by entry. */
export function openedDir(path) {
	const folder = pathText(path);
	const found = sync("fs.readdir", { path: folder, recursive: false }).map(([name, kind]) => new Dirent(name, kind, folder));
	return {
		path: folder,
		readSync: () => found.shift() ?? null,
		read: async () => found.shift() ?? null,
		closeSync() {},
		async close() {},
		async *[Symbol.asyncIterator]() {
			yield* found;
		},
	};
}

export const opendir = async (path) => openedDir(path);

export function globbed(pattern, cwd) {
	const matches = globPattern(pattern);
	return sync("fs.readdir", { path: cwd, recursive: true }).map(([name]) => name).filter((name) => matches.test(name));
}

export async function* glob(pattern, { cwd = globalThis.process.cwd() } = {}) {
	for (const each of [pattern].flat()) yield* globbed(each, cwd);
}

export async function* watch(path, { signal } = {}) {
	const { watch: watching } = await import("node:fs");
	const { on } = await import("node:events");
	const watcher = watching(path);
	try {
		for await (const [eventType, filename] of on(watcher, "change", { signal })) yield { eventType, filename };
	} finally {
		watcher.close();
	}
}
