// Splits a stream into lines, for `readline` and `readline/promises`.

import { EventEmitter } from "node:events";
import { StringDecoder } from "node:string_decoder";

export class Interface extends EventEmitter {
	terminal = false;
	line = "";
	cursor = 0;
	closed = false;
	#rest = "";
	#prompt = "> ";
	#questions = [];

	constructor(options, output) {
		super();
		const { input, output: to = output, prompt } = options?.input ? options : { input: options };
		this.input = input;
		this.output = to;
		if (prompt !== undefined) this.#prompt = prompt;
		const decoder = new StringDecoder("utf8");
		input?.on?.("data", (chunk) => this.#take(typeof chunk === "string" ? chunk : decoder.write(chunk)));
		input?.once?.("end", () => {
			this.#take(decoder.end());
			if (this.#rest !== "") this.#line(this.#rest);
			this.#rest = "";
			this.close();
		});
	}
	#take(text) {
		const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
		this.#rest = lines.pop();
		for (const line of lines) this.#line(line);
	}
	#line(line) {
		const question = this.#questions.shift();
		if (question) question(line);
		else this.emit("line", line);
	}
	question(query, options, callback) {
		const done = typeof options === "function" ? options : callback;
		this.output?.write(query);
		this.#questions.push(done);
	}
	close() {
		if (this.closed) return;
		this.closed = true;
		this.emit("close");
	}
	pause() {
		this.input?.pause?.();
		return this;
	}
	resume() {
		this.input?.resume?.();
		return this;
	}
	setPrompt(prompt) {
		this.#prompt = prompt;
	}
	getPrompt() {
		return this.#prompt;
	}
	prompt() {
		this.output?.write(this.#prompt);
	}
	write(text) {
		if (typeof text === "string") this.#take(text);
	}
	async *[Symbol.asyncIterator]() {
		const lines = [];
		let wake = () => {};
		this.on("line", (line) => {
			lines.push(line);
			wake();
		});
		this.once("close", () => wake());
		for (;;) {
			while (lines.length > 0) yield lines.shift();
			if (this.closed) return;
			await new Promise((resolve) => {
				wake = resolve;
			});
		}
	}
	[Symbol.dispose]() {
		this.close();
	}
}
