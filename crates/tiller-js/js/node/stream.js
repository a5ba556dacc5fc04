// Node's streams.

import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import { StringDecoder } from "node:string_decoder";

const soon = (work) => queueMicrotask(work);

export class Stream extends EventEmitter {
	pipe(to, { end = true } = {}) {
		this.on("data", (chunk) => {
			if (to.write(chunk) === false && this.pause) {
				this.pause();
				to.once("drain", () => this.resume());
			}
		});
		if (end && to !== globalThis.process.stdout && to !== globalThis.process.stderr) this.once("end", () => to.end());
		to.emit("pipe", this);
		return to;
	}
}

/** Ends a stream early, in both directions. */
function destroyStream(stream, error) {
	if (stream.destroyed) return stream;
	stream.destroyed = true;
	const failure = error ?? null;
	stream._destroy(failure, (late) => {
		const final = late ?? failure;
		stream.errored = final;
		stream.closed = true;
		soon(() => {
			if (final) stream.emit("error", final);
			stream.emit("close");
		});
	});
	return stream;
}

export class Readable extends Stream {
	readable = true;
	destroyed = false;
	closed = false;
	errored = null;
	readableEnded = false;
	readableFlowing = null;
	readableAborted = false;
	_chunks = [];
	_isEnding = false;
	_isReading = false;
	_isPumping = false;
	_decoder = undefined;

	constructor({ read, destroy, highWaterMark, objectMode = false, encoding, signal } = {}) {
		super();
		if (read) this._read = read;
		if (destroy) this._destroy = destroy;
		this.readableObjectMode = objectMode;
		this.readableHighWaterMark = highWaterMark ?? (objectMode ? 16 : 65536);
		if (encoding) this.setEncoding(encoding);
		signal?.addEventListener("abort", () => this.destroy(signal.reason), { once: true });
	}

	get readableLength() {
		return this._chunks.reduce((sum, chunk) => sum + (this.readableObjectMode ? 1 : chunk.length), 0);
	}
	_read() {}
	_destroy(error, callback) {
		callback(error);
	}
	destroy(error) {
		return destroyStream(this, error);
	}

	push(chunk, encoding) {
		this._isReading = false;
		if (chunk === null) {
			const rest = this._decoder?.end();
			if (rest) this._chunks.push(rest);
			this._isEnding = true;
		} else {
			let value = chunk;
			if (!this.readableObjectMode) {
				if (typeof value === "string") value = this._decoder ? value : Buffer.from(value, encoding);
				else if (!(value instanceof Buffer)) value = Buffer.from(value);
				if (this._decoder && typeof value !== "string") value = this._decoder.write(value);
				if (value.length === 0) return true;
			}
			this._chunks.push(value);
		}
		this._pump();
		return this.readableLength < this.readableHighWaterMark;
	}
	unshift(chunk) {
		this._chunks.unshift(typeof chunk === "string" && !this._decoder ? Buffer.from(chunk) : chunk);
	}

	/** Emits buffered data to the listeners, in a separate job. */
	_pump() {
		if (this._isPumping) return;
		this._isPumping = true;
		soon(() => {
			this._isPumping = false;
			if (this.destroyed) return;
			if (this.readableFlowing) {
				while (this._chunks.length > 0 && this.readableFlowing) this.emit("data", this._chunks.shift());
			} else if ((this._chunks.length > 0 || this._isEnding) && this.listenerCount("readable") > 0) {
				this.emit("readable");
			}
			if (this._isEnding && this._chunks.length === 0) this._finish();
			else if (this.readableFlowing) this._more();
		});
	}
	_finish() {
		if (this.readableEnded) return;
		if (!this.readableFlowing && this.listenerCount("readable") === 0 && this.listenerCount("end") === 0) return;
		this.readableEnded = true;
		this.readable = false;
		this.emit("end");
		if (this._isDuplex ? this.writableFinished : true) this.destroy();
	}
	_more() {
		if (this._isReading || this._isEnding || this.destroyed) return;
		if (this.readableLength >= this.readableHighWaterMark) return;
		this._isReading = true;
		this._read(this.readableHighWaterMark);
	}

	read(size) {
		if (this._chunks.length === 0) {
			this._more();
			if (this._chunks.length === 0) {
				if (this._isEnding) this._pump();
				return null;
			}
		}
		if (this.readableObjectMode) return this._chunks.shift();
		const whole = this._decoder ? this._chunks.join("") : Buffer.concat(this._chunks);
		if (size === undefined || size >= whole.length) {
			this._chunks = [];
			if (this._isEnding) this._pump();
			else this._more();
			return whole;
		}
		this._chunks = [whole.slice(size)];
		return whole.slice(0, size);
	}

	on(name, listener) {
		super.on(name, listener);
		if (name === "data" && this.readableFlowing !== false) this.resume();
		else if (name === "readable") {
			this.readableFlowing = false;
			this._pump();
			this._more();
		} else if (name === "end" && this._isEnding) this._pump();
		return this;
	}
	addListener(name, listener) {
		return this.on(name, listener);
	}
	resume() {
		this.readableFlowing = true;
		this._pump();
		this._more();
		return this;
	}
	pause() {
		this.readableFlowing = false;
		return this;
	}
	isPaused() {
		return this.readableFlowing === false;
	}
	setEncoding(encoding) {
		this._decoder = new StringDecoder(encoding);
		this.readableEncoding = encoding;
		this._chunks = this._chunks.map((chunk) => (typeof chunk === "string" ? chunk : this._decoder.write(chunk)));
		return this;
	}
	unpipe() {
		this.removeAllListeners("data");
		return this;
	}
	wrap(old) {
		old.on("data", (chunk) => this.push(chunk));
		old.on("end", () => this.push(null));
		return this;
	}

	async *[Symbol.asyncIterator]() {
		let wake = () => {};
		let failure;
		let isDone = false;
		this.on("readable", () => wake());
		this.once("end", () => {
			isDone = true;
			wake();
		});
		this.once("error", (error) => {
			failure = error;
			wake();
		});
		this.once("close", () => {
			isDone = true;
			wake();
		});
		try {
			for (;;) {
				const chunk = this.read();
				if (chunk !== null) yield chunk;
				else if (failure) throw failure;
				else if (isDone || this.readableEnded) return;
				else {
					await new Promise((resolve) => {
						wake = resolve;
					});
				}
			}
		} finally {
			this.destroy();
		}
	}
	iterator() {
		return this[Symbol.asyncIterator]();
	}
	async toArray() {
		const all = [];
		for await (const chunk of this) all.push(chunk);
		return all;
	}
	map(change) {
		const source = this;
		return Readable.from((async function* () {
			for await (const chunk of source) yield await change(chunk);
		})());
	}

	static from(items, options) {
		const list = typeof items === "string" || items instanceof Uint8Array ? [items] : items;
		const iterator = list[Symbol.asyncIterator]?.() ?? list[Symbol.iterator]();
		return new Readable({
			objectMode: true,
			...options,
			read() {
				Promise.resolve(iterator.next()).then(
					async ({ value, done }) => this.push(done ? null : await value),
					(error) => this.destroy(error),
				);
			},
			destroy(error, callback) {
				iterator.return?.();
				callback(error);
			},
		});
	}
	static fromWeb(web, options) {
		const reader = web.getReader();
		return new Readable({
			...options,
			read() {
				reader.read().then(({ value, done }) => this.push(done ? null : value), (error) => this.destroy(error));
			},
			destroy(error, callback) {
				reader.cancel(error).then(() => callback(error), () => callback(error));
			},
		});
	}
	static toWeb(stream) {
		return new ReadableStream({
			start(controller) {
				stream.on("data", (chunk) => controller.enqueue(typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk));
				stream.once("end", () => controller.close());
				stream.once("error", (error) => controller.error(error));
			},
			cancel: (reason) => stream.destroy(reason),
		});
	}
	static isDisturbed = (stream) => stream.readableFlowing !== null;
}

function setUpWriting(stream, { write, writev, final, destroy, highWaterMark, objectMode = false, decodeStrings = true, defaultEncoding = "utf8", signal, construct } = {}) {
	if (write) stream._write = write;
	if (writev) stream._writev = writev;
	if (final) stream._final = final;
	if (destroy) stream._destroy = destroy;
	Object.assign(stream, {
		writable: true,
		destroyed: false,
		writableEnded: false,
		writableFinished: false,
		writableNeedDrain: false,
		writableCorked: 0,
		writableObjectMode: objectMode,
		writableHighWaterMark: highWaterMark ?? (objectMode ? 16 : 65536),
		_queue: [],
		_isWriting: false,
		_decodesStrings: decodeStrings,
		_defaultEncoding: defaultEncoding,
	});
	signal?.addEventListener("abort", () => stream.destroy(signal.reason), { once: true });
	construct?.call(stream, () => {});
}

const writing = {
	get writableLength() {
		return this._queue.reduce((sum, { chunk }) => sum + (this.writableObjectMode ? 1 : chunk.length), 0);
	},
	write(chunk, encoding, callback) {
		const done = typeof encoding === "function" ? encoding : callback;
		const named = typeof encoding === "string" ? encoding : this._defaultEncoding;
		if (this.writableEnded || this.destroyed) {
			const error = Object.assign(new Error(this.writableEnded ? "write after end" : "Cannot call write after a stream was destroyed"), { code: this.writableEnded ? "ERR_STREAM_WRITE_AFTER_END" : "ERR_STREAM_DESTROYED" });
			soon(() => done?.(error));
			if (this.writableEnded && !this.destroyed) this.destroy(error);
			return false;
		}
		let value = chunk;
		if (!this.writableObjectMode) {
			if (typeof value === "string") value = this._decodesStrings ? Buffer.from(value, named) : value;
			else if (!(value instanceof Buffer)) value = Buffer.from(value.buffer ?? value, value.byteOffset, value.byteLength);
		}
		this._queue.push({ chunk: value, encoding: typeof value === "string" ? named : "buffer", done });
		const isFull = this.writableLength >= this.writableHighWaterMark;
		this.writableNeedDrain = isFull;
		this._work();
		return !isFull;
	},
	_work() {
		if (this._isWriting || this.destroyed) return;
		const next = this._queue[0];
		if (!next) {
			if (this.writableEnded) this._end();
			return;
		}
		this._isWriting = true;
		const after = (error) => {
			this._isWriting = false;
			this._queue.shift();
			soon(() => next.done?.(error ?? null));
			if (error) {
				this.destroy(error);
				return;
			}
			if (this._queue.length === 0 && this.writableNeedDrain) {
				this.writableNeedDrain = false;
				soon(() => this.emit("drain"));
			}
			this._work();
		};
		try {
			if (this._writev && !this._write) this._writev([next], after);
			else this._write(next.chunk, next.encoding, after);
		} catch (error) {
			after(error);
		}
	},
	end(chunk, encoding, callback) {
		const done = [chunk, encoding, callback].find((each) => typeof each === "function");
		if (chunk !== undefined && chunk !== null && typeof chunk !== "function") this.write(chunk, typeof encoding === "string" ? encoding : undefined);
		if (done) this.once("finish", done);
		if (this.writableEnded) return this;
		this.writableEnded = true;
		this._work();
		return this;
	},
	_end() {
		if (this._isFinishing) return;
		this._isFinishing = true;
		const finished = (error) => {
			if (error) {
				this.destroy(error);
				return;
			}
			soon(() => {
				this.writableFinished = true;
				this.writable = false;
				this.emit("finish");
				if (this._isDuplex ? this.readableEnded : true) this.destroy();
			});
		};
		if (this._final) this._final(finished);
		else finished();
	},
	cork() {
		this.writableCorked++;
	},
	uncork() {
		this.writableCorked = Math.max(0, this.writableCorked - 1);
	},
	setDefaultEncoding(encoding) {
		this._defaultEncoding = encoding;
		return this;
	},
};

export class Writable extends Stream {
	closed = false;
	errored = null;
	constructor(options) {
		super();
		setUpWriting(this, options);
	}
	_write(_chunk, _encoding, callback) {
		callback();
	}
	_destroy(error, callback) {
		callback(error);
	}
	destroy(error) {
		return destroyStream(this, error);
	}
	async [Symbol.asyncDispose]() {
		this.destroy();
	}
	static toWeb(stream) {
		return new WritableStream({
			write: (chunk) => new Promise((resolve, reject) => stream.write(chunk, (error) => (error ? reject(error) : resolve()))),
			close: () => new Promise((resolve) => stream.end(resolve)),
			abort: (reason) => void stream.destroy(reason),
		});
	}
	static fromWeb(web) {
		const writer = web.getWriter();
		return new Writable({
			write: (chunk, _encoding, callback) => writer.write(chunk).then(() => callback(), callback),
			final: (callback) => writer.close().then(() => callback(), callback),
		});
	}
}
Object.defineProperties(Writable.prototype, Object.getOwnPropertyDescriptors(writing));

export class Duplex extends Readable {
	_isDuplex = true;
	constructor(options = {}) {
		const { read, destroy, highWaterMark, objectMode, readableObjectMode, writableObjectMode, readableHighWaterMark, writableHighWaterMark, encoding, allowHalfOpen = true, ...rest } = options;
		super({ read, destroy, highWaterMark: readableHighWaterMark ?? highWaterMark, objectMode: readableObjectMode ?? objectMode, encoding });
		this.allowHalfOpen = allowHalfOpen;
		setUpWriting(this, { ...rest, destroy, highWaterMark: writableHighWaterMark ?? highWaterMark, objectMode: writableObjectMode ?? objectMode });
		if (!allowHalfOpen) this.once("end", () => this.end());
	}
	_write(_chunk, _encoding, callback) {
		callback();
	}
	static from(source) {
		return Readable.from(source);
	}
}
Object.defineProperties(Duplex.prototype, Object.getOwnPropertyDescriptors(writing));

export class Transform extends Duplex {
	constructor({ transform, flush, ...options } = {}) {
		super(options);
		if (transform) this._transform = transform;
		if (flush) this._flush = flush;
	}
	_transform(chunk, _encoding, callback) {
		callback(null, chunk);
	}
	_write(chunk, encoding, callback) {
		this._transform(chunk, encoding, (error, value) => {
			if (value !== undefined && value !== null) this.push(value);
			callback(error);
		});
	}
	_final(callback) {
		const end = (error, value) => {
			if (value !== undefined && value !== null) this.push(value);
			if (!error) this.push(null);
			callback(error);
		};
		if (this._flush) this._flush(end);
		else end();
	}
	_read() {
		this._isReading = false;
	}
}

export class PassThrough extends Transform {}

export function finished(stream, options, callback) {
	const done = typeof options === "function" ? options : callback;
	let isDone = false;
	const finish = (error) => {
		if (isDone) return;
		isDone = true;
		done(error);
	};
	const check = () => {
		const read = stream.readable === undefined || stream.readableEnded || !(stream instanceof Readable);
		const written = stream.writable === undefined || stream.writableFinished;
		if (read && written) finish();
	};
	stream.on("error", finish);
	stream.on("end", check);
	stream.on("finish", check);
	stream.on("close", () => {
		const isComplete = (stream.readableEnded ?? true) && (stream.writableFinished ?? true);
		finish(isComplete ? undefined : Object.assign(new Error("Premature close"), { code: "ERR_STREAM_PREMATURE_CLOSE" }));
	});
	if (stream.closed) soon(() => finish(stream.errored ?? undefined));
	return () => {
		isDone = true;
	};
}

export function pipeline(...streams) {
	const callback = typeof streams.at(-1) === "function" && streams.length > 1 ? streams.pop() : () => {};
	const list = streams.flat();
	let isDone = false;
	const finish = (error) => {
		if (isDone) return;
		isDone = true;
		if (error) for (const stream of list) stream.destroy?.(error);
		callback(error);
	};
	let current = list[0];
	if (typeof current === "function") current = current();
	if (!(current instanceof Stream)) current = Readable.from(current);
	current.on("error", finish);
	for (const next of list.slice(1)) {
		if (typeof next === "function") {
			current = Readable.from(next(current));
			current.on("error", finish);
			continue;
		}
		next.on("error", finish);
		current = current.pipe(next);
	}
	if (current instanceof Readable && !(current instanceof Duplex)) {
		current.on("end", () => finish());
		current.resume();
	} else current.on("finish", () => finish());
	return current;
}

export const addAbortSignal = (signal, stream) => {
	signal.addEventListener("abort", () => stream.destroy(signal.reason), { once: true });
	return stream;
};
export const isReadable = (stream) => stream?.readable === true;
export const isWritable = (stream) => stream?.writable === true;
export const isErrored = (stream) => Boolean(stream?.errored);
export const isDisturbed = (stream) => stream?.readableFlowing !== null;
export const getDefaultHighWaterMark = (objectMode) => (objectMode ? 16 : 65536);
export const setDefaultHighWaterMark = () => {};

export const promises = {
	finished: (stream, options) => new Promise((resolve, reject) => finished(stream, options ?? {}, (error) => (error ? reject(error) : resolve()))),
	pipeline: (...streams) => {
		const last = streams.at(-1);
		const isOptions = typeof last === "object" && last !== null && !(last instanceof Stream) && !last[Symbol.asyncIterator] && !last[Symbol.iterator];
		if (isOptions) streams.pop();
		return new Promise((resolve, reject) => pipeline(...streams, (error) => (error ? reject(error) : resolve())));
	},
};

export default Object.assign(Stream, { Stream, Readable, Writable, Duplex, Transform, PassThrough, finished, pipeline, addAbortSignal, isReadable, isWritable, isErrored, isDisturbed, promises, getDefaultHighWaterMark, setDefaultHighWaterMark });
