// Web streams.

export class CountQueuingStrategy {
	constructor({ highWaterMark }) {
		this.highWaterMark = highWaterMark;
	}
	size() {
		return 1;
	}
}

export class ByteLengthQueuingStrategy {
	constructor({ highWaterMark }) {
		this.highWaterMark = highWaterMark;
	}
	size(chunk) {
		return chunk.byteLength;
	}
}

const quiet = (promise) => {
	promise.catch(() => {});
	return promise;
};

export class ReadableStream {
	_queue = [];
	_size = 0;
	_waiting = [];
	_state = "readable";
	_error;
	_reader;
	#source;
	#strategy;
	#isPulling = false;
	#pullsAgain = false;
	#controller;
	#isStarted = false;

	constructor(source = {}, strategy = {}) {
		this.#source = source;
		this.#strategy = { highWaterMark: strategy.highWaterMark ?? (source.type === "bytes" ? 0 : 1), size: (chunk) => strategy.size?.(chunk) ?? 1 };
		const stream = this;
		this.#controller = {
			get desiredSize() {
				return stream._state === "errored" ? null : stream._state === "closed" ? 0 : stream.#strategy.highWaterMark - stream._size;
			},
			byobRequest: null,
			enqueue(chunk) {
				if (stream._state !== "readable" || stream._isClosing) throw new TypeError("Invalid state: Controller is already closed");
				const waiting = stream._waiting.shift();
				if (waiting) waiting.resolve({ value: chunk, done: false });
				else {
					const size = stream.#strategy.size(chunk);
					stream._queue.push([chunk, size]);
					stream._size += size;
				}
				stream._pull();
			},
			close() {
				if (stream._state !== "readable" || stream._isClosing) throw new TypeError("Invalid state: Controller is already closed");
				stream._isClosing = true;
				if (stream._queue.length === 0) stream._close();
			},
			error(error) {
				stream._fail(error);
			},
		};
		const started = source.start?.(this.#controller);
		Promise.resolve(started).then(
			() => {
				this.#isStarted = true;
				this._pull();
			},
			(error) => this._fail(error),
		);
	}

	get locked() {
		return this._reader !== undefined;
	}
	_close() {
		this._state = "closed";
		for (const waiting of this._waiting.splice(0)) waiting.resolve({ value: undefined, done: true });
		this._reader?._settle();
	}
	_fail(error) {
		if (this._state !== "readable") return;
		this._state = "errored";
		this._error = error;
		this._queue = [];
		for (const waiting of this._waiting.splice(0)) waiting.reject(error);
		this._reader?._settle(error);
	}
	_pull() {
		if (!this.#isStarted || this._state !== "readable" || this._isClosing || !this.#source.pull) return;
		if (this._waiting.length === 0 && this._size >= this.#strategy.highWaterMark) return;
		if (this.#isPulling) {
			this.#pullsAgain = true;
			return;
		}
		this.#isPulling = true;
		Promise.resolve()
			.then(() => this.#source.pull(this.#controller))
			.then(
				() => {
					this.#isPulling = false;
					if (!this.#pullsAgain) return;
					this.#pullsAgain = false;
					this._pull();
				},
				(error) => this._fail(error),
			);
	}
	_take() {
		if (this._queue.length > 0) {
			const [value, size] = this._queue.shift();
			this._size -= size;
			if (this._isClosing && this._queue.length === 0) this._close();
			else this._pull();
			return Promise.resolve({ value, done: false });
		}
		if (this._state === "closed") return Promise.resolve({ value: undefined, done: true });
		if (this._state === "errored") return Promise.reject(this._error);
		const promise = new Promise((resolve, reject) => this._waiting.push({ resolve, reject }));
		this._pull();
		return promise;
	}
	async _cancel(reason) {
		if (this._state === "errored") throw this._error;
		if (this._state === "closed") return;
		this._queue = [];
		this._close();
		await this.#source.cancel?.(reason);
	}
	async cancel(reason) {
		if (this.locked) throw new TypeError("Invalid state: ReadableStream is locked");
		await this._cancel(reason);
	}
	getReader() {
		return new ReadableStreamDefaultReader(this);
	}
	pipeThrough({ readable, writable }, options) {
		quiet(this.pipeTo(writable, options));
		return readable;
	}
	async pipeTo(to, { preventClose = false, preventAbort = false, preventCancel = false, signal } = {}) {
		const reader = this.getReader();
		const writer = to.getWriter();
		try {
			for (;;) {
				signal?.throwIfAborted();
				const { value, done } = await reader.read();
				if (done) break;
				await writer.ready;
				await writer.write(value);
			}
			if (!preventClose) await writer.close();
		} catch (error) {
			if (!preventAbort) await writer.abort(error).catch(() => {});
			if (!preventCancel) await reader.cancel(error).catch(() => {});
			throw error;
		} finally {
			reader.releaseLock();
			writer.releaseLock();
		}
	}
	tee() {
		const reader = this.getReader();
		const branches = [];
		const pull = async () => {
			const { value, done } = await reader.read();
			for (const branch of branches) {
				if (done) branch.close();
				else branch.enqueue(value);
			}
		};
		const make = () =>
			new ReadableStream({
				start(controller) {
					branches.push(controller);
				},
				pull,
			});
		return [make(), make()];
	}
	async *[Symbol.asyncIterator]() {
		const reader = this.getReader();
		try {
			for (;;) {
				const { value, done } = await reader.read();
				if (done) return;
				yield value;
			}
		} finally {
			if (this._state === "readable") await reader.cancel().catch(() => {});
			reader.releaseLock();
		}
	}
	values() {
		return this[Symbol.asyncIterator]();
	}
	static from(items) {
		const iterator = items[Symbol.asyncIterator]?.() ?? items[Symbol.iterator]();
		return new ReadableStream({
			async pull(controller) {
				const { value, done } = await iterator.next();
				if (done) controller.close();
				else controller.enqueue(value);
			},
			cancel: (reason) => iterator.return?.(reason),
		});
	}
	get [Symbol.toStringTag]() {
		return "ReadableStream";
	}
}

export class ReadableStreamDefaultReader {
	#stream;
	#settled;
	#resolve;
	#reject;
	constructor(stream) {
		if (stream.locked) throw new TypeError("Invalid state: ReadableStream is locked");
		this.#stream = stream;
		stream._reader = this;
		this.#settled = quiet(new Promise((resolve, reject) => {
			this.#resolve = resolve;
			this.#reject = reject;
		}));
		if (stream._state === "closed") this._settle();
		else if (stream._state === "errored") this._settle(stream._error);
	}
	_settle(error) {
		if (error === undefined) this.#resolve();
		else this.#reject(error);
	}
	get closed() {
		return this.#settled;
	}
	read() {
		if (!this.#stream) return Promise.reject(new TypeError("Invalid state: The reader is not attached to a stream"));
		return this.#stream._take();
	}
	async cancel(reason) {
		await this.#stream?._cancel(reason);
	}
	releaseLock() {
		if (this.#stream) this.#stream._reader = undefined;
		this.#stream = undefined;
	}
}

export class WritableStream {
	_writer;
	_state = "writable";
	_error;
	#sink;
	#last;
	#controller;
	constructor(sink = {}) {
		this.#sink = sink;
		this.#controller = { error: (error) => this._fail(error), signal: new AbortController().signal };
		this.#last = Promise.resolve(sink.start?.(this.#controller));
		this.#last.catch((error) => this._fail(error));
	}
	get locked() {
		return this._writer !== undefined;
	}
	_fail(error) {
		if (this._state === "writable") {
			this._state = "errored";
			this._error = error;
		}
	}
	_do(work) {
		const next = this.#last.then(() => {
			if (this._state === "errored") throw this._error;
			return work();
		});
		this.#last = next.catch((error) => this._fail(error));
		return quiet(next);
	}
	_write(chunk) {
		return this._do(() => this.#sink.write?.(chunk, this.#controller));
	}
	_close() {
		return this._do(async () => {
			await this.#sink.close?.();
			this._state = "closed";
		});
	}
	async _abort(reason) {
		this._fail(reason);
		await this.#sink.abort?.(reason);
	}
	_idle() {
		return this.#last.then(() => undefined);
	}
	getWriter() {
		return new WritableStreamDefaultWriter(this);
	}
	close() {
		return this._close();
	}
	abort(reason) {
		return this._abort(reason);
	}
	get [Symbol.toStringTag]() {
		return "WritableStream";
	}
}

export class WritableStreamDefaultWriter {
	#stream;
	constructor(stream) {
		if (stream.locked) throw new TypeError("Invalid state: WritableStream is locked");
		this.#stream = stream;
		stream._writer = this;
	}
	get ready() {
		return this.#stream._idle();
	}
	get closed() {
		return this.#stream._idle();
	}
	get desiredSize() {
		return 1;
	}
	write(chunk) {
		return this.#stream._write(chunk);
	}
	close() {
		return this.#stream._close();
	}
	abort(reason) {
		return this.#stream._abort(reason);
	}
	releaseLock() {
		this.#stream._writer = undefined;
	}
}

export class TransformStream {
	constructor({ start, transform, flush } = {}) {
		let out;
		let wake = () => {};
		this.readable = new ReadableStream({
			start(controller) {
				out = controller;
			},
			pull: () => wake(),
		}, { highWaterMark: 0 });
		const controller = {
			enqueue: (chunk) => out.enqueue(chunk),
			error: (error) => out.error(error),
			terminate: () => out.close(),
			get desiredSize() {
				return out.desiredSize;
			},
		};
		this.writable = new WritableStream({
			start: () => start?.(controller),
			async write(chunk) {
				if (out.desiredSize <= 0) {
					await Promise.race([new Promise((resolve) => {
						wake = resolve;
					}), new Promise((resolve) => setTimeout(resolve, 0))]);
				}
				if (transform) await transform(chunk, controller);
				else controller.enqueue(chunk);
			},
			async close() {
				await flush?.(controller);
				try {
					out.close();
				} catch {
					// The transformer has already ended the stream.
				}
			},
			abort: (reason) => out.error(reason),
		});
	}
}

export class TextDecoderStream extends TransformStream {
	constructor(label, options) {
		const decoder = new TextDecoder(label, options);
		super({
			transform(chunk, controller) {
				const text = decoder.decode(chunk, { stream: true });
				if (text) controller.enqueue(text);
			},
			flush(controller) {
				const text = decoder.decode();
				if (text) controller.enqueue(text);
			},
		});
		this.encoding = decoder.encoding;
	}
}

export class TextEncoderStream extends TransformStream {
	constructor() {
		const encoder = new TextEncoder();
		super({ transform: (chunk, controller) => controller.enqueue(encoder.encode(chunk)) });
		this.encoding = "utf-8";
	}
}
