// `string_decoder`: decodes text from chunks of bytes.

import { Buffer } from "node:buffer";

export class StringDecoder {
	#rest = Buffer.alloc(0);
	#utf8;
	constructor(encoding = "utf8") {
		this.encoding = String(encoding).toLowerCase().replace("utf-8", "utf8");
		if (this.encoding === "utf8") this.#utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
	}
	write(chunk) {
		if (typeof chunk === "string") return chunk;
		if (this.#utf8) return this.#utf8.decode(chunk, { stream: true });
		const unit = { utf16le: 2, base64: 3, base64url: 3 }[this.encoding] ?? 1;
		const all = Buffer.concat([this.#rest, chunk]);
		const whole = all.length - (all.length % unit);
		this.#rest = all.subarray(whole);
		return all.subarray(0, whole).toString(this.encoding);
	}
	end(chunk) {
		const text = chunk === undefined ? "" : this.write(chunk);
		if (this.#utf8) return text + this.#utf8.decode();
		const rest = this.#rest.toString(this.encoding);
		this.#rest = Buffer.alloc(0);
		return text + rest;
	}
}
