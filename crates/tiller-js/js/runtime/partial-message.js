// The partial assistant message. The host sends what each event adds; extensions see the whole message beside
// every event, as one object that grows.

import { sync } from "tiller:host";

export class PartialMessage {
	#message;
	/** The JSON text of incomplete arguments, by block. */
	#argumentText = new Map();

	/** The content so far, for an answer that ends here. */
	get content() {
		return this.#message?.content ?? [];
	}

	/** The event as extensions see it, or nothing if it is not for them. */
	apply(event) {
		switch (event.type) {
			case "start":
				this.#message = { content: [], ...event.partial };
				break;
			case "done":
			case "error":
				return event;
			case "usage":
			case "response": {
				const { type, ...fields } = event;
				Object.assign((this.#message ??= { content: [] }), fields);
				return undefined;
			}
			default:
				return this.#applyDelta(event);
		}
		event.partial = this.#message;
		return event;
	}

	#applyDelta({ type, contentIndex, ...more }) {
		const partial = (this.#message ??= { content: [] });
		const block = partial.content[contentIndex];
		const event = { type, contentIndex };
		switch (type) {
			case "text_start":
				partial.content[contentIndex] = { type: "text", text: "" };
				break;
			case "thinking_start":
				partial.content[contentIndex] = { type: "thinking", thinking: "" };
				break;
			case "toolcall_start":
				partial.content[contentIndex] = this.#call(contentIndex, more);
				break;
			case "text_delta":
				block.text += more.delta;
				event.delta = more.delta;
				break;
			case "thinking_delta":
				block.thinking += more.delta;
				event.delta = more.delta;
				break;
			case "toolcall_delta":
				this.#argumentText.set(contentIndex, this.#argumentText.get(contentIndex) + more.delta);
				event.delta = more.delta;
				break;
			case "text_end":
				if (more.textSignature) block.textSignature = more.textSignature;
				event.content = more.content;
				break;
			case "thinking_end":
				if (more.thinkingSignature) block.thinkingSignature = more.thinkingSignature;
				if (more.redacted) block.redacted = true;
				event.content = more.content;
				break;
			case "toolcall_end":
				this.#argumentText.delete(contentIndex);
				event.toolCall = partial.content[contentIndex] = more.toolCall;
				break;
			default:
				Object.assign(event, more);
		}
		event.partial = partial;
		return event;
	}

	/** Arguments are parsed on access: parsing them with every delta would be quadratic. */
	#call(at, { id, name }) {
		this.#argumentText.set(at, "");
		const call = { type: "toolCall", id, name };
		const parsed = () => parsePartial(this.#argumentText.get(at));
		return Object.defineProperty(call, "arguments", { get: parsed, enumerable: true, configurable: true });
	}
}

/** Parses as much of an object as the text contains. */
export function parsePartial(text) {
	if (!text?.trim()) return {};
	try {
		return JSON.parse(text);
	} catch {
		return sync("text.partialJson", text);
	}
}
