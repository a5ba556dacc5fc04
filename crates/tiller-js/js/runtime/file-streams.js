// File streams.

import { ask } from "tiller:host";
import { data, modeNumber, openFlags, pathText } from "tiller:files";
import { Readable, Writable } from "node:stream";
import { Buffer } from "node:buffer";

export class ReadStream extends Readable {
	constructor(path, options) {
		const { flags = "r", start = 0, end = Infinity, highWaterMark = 65536, fd, encoding, mode } = typeof options === "string" ? { encoding: options } : (options ?? {});
		super({ highWaterMark });
		this.path = path;
		this.fd = fd ?? null;
		this.bytesRead = 0;
		this.#at = start;
		this.#end = end;
		this.#flags = openFlags(flags);
		this.#mode = modeNumber(mode);
		if (encoding) this.setEncoding(encoding);
	}
	#at;
	#end;
	#flags;
	#mode;
	async #open() {
		if (this.fd !== null) return;
		this.fd = await ask("fs.open", { path: pathText(this.path), flag: this.#flags, mode: this.#mode });
		this.emit("open", this.fd);
		this.emit("ready");
	}
	_read(size) {
		const step = async () => {
			await this.#open();
			const length = Math.min(size || 65536, this.#end - this.#at + 1);
			const bytes = length > 0 ? await ask("fs.read", { fd: this.fd, length, position: this.#at }) : [];
			this.#at += bytes.length;
			this.bytesRead += bytes.length;
			this.push(bytes.length > 0 ? Buffer.from(bytes) : null);
		};
		step().catch((error) => this.destroy(error));
	}
	_destroy(error, callback) {
		const fd = this.fd;
		this.fd = null;
		if (fd === null) callback(error);
		else ask("fs.close", { fd }).then(() => callback(error), () => callback(error));
	}
	close(callback) {
		if (callback) this.once("close", callback);
		this.destroy();
	}
}

export class WriteStream extends Writable {
	constructor(path, options) {
		const { flags = "w", start, fd, encoding, mode } = typeof options === "string" ? { encoding: options } : (options ?? {});
		super({ defaultEncoding: encoding });
		this.path = path;
		this.fd = fd ?? null;
		this.bytesWritten = 0;
		this.#at = start;
		this.#open = this.fd === null ? ask("fs.open", { path: pathText(path), flag: openFlags(flags), mode: modeNumber(mode) }) : Promise.resolve(this.fd);
		this.#open.then(
			(fd) => {
				this.fd = fd;
				this.emit("open", fd);
				this.emit("ready");
			},
			(error) => this.destroy(error),
		);
	}
	#at;
	#open;
	_write(chunk, encoding, callback) {
		const step = async () => {
			const fd = await this.#open;
			const bytes = data(chunk, encoding);
			await ask("fs.write", { fd, position: this.#at }, bytes);
			if (this.#at !== undefined) this.#at += bytes.length;
			this.bytesWritten += bytes.length;
		};
		step().then(() => callback(), callback);
	}
	_destroy(error, callback) {
		this.#open
			.then((fd) => ask("fs.close", { fd }))
			.then(() => callback(error), () => callback(error));
	}
	close(callback) {
		if (callback) this.once("close", callback);
		this.end();
	}
}

export const createReadStream = (path, options) => new ReadStream(path, options);
export const createWriteStream = (path, options) => new WriteStream(path, options);
