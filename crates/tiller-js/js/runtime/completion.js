// Requests to models, and the event stream of an answer.

import { begin, query, sync } from "tiller:host";
import { describe } from "tiller:errors";
import { PartialMessage } from "tiller:partial-message";

/** After this many events, they are acknowledged, so that the host sends more. */
const handledAtOnce = 32;

/** A stream of events with a final message. Events are buffered until they are read. */
export class EventStream {
	#waiting = [];
	/** How many waiting readers were served; shifting the array each time would be quadratic. */
	#taken = 0;
	#readers = [];
	#isEnded = false;
	#isLast;
	#result;
	#settle;
	#fail;

	constructor(isLast = () => false, resultOf = () => undefined) {
		this.#isLast = isLast;
		this.resultOf = resultOf;
		this.#result = new Promise((resolve, reject) => {
			this.#settle = resolve;
			this.#fail = reject;
		});
		this.#result.catch(() => {});
	}

	push(event) {
		if (this.#isEnded) return;
		if (this.#isLast(event)) {
			this.#settle(this.resultOf(event));
			this.#isEnded = true;
		}
		const reader = this.#readers.shift();
		if (reader) reader({ value: event, done: false });
		else this.#waiting.push(event);
		if (this.#isEnded) this.#close();
	}

	end(result) {
		if (result !== undefined) this.#settle(result);
		this.#isEnded = true;
		this.#close();
	}

	fail(error) {
		this.#fail(error);
		this.end();
	}

	#take() {
		const event = this.#waiting[this.#taken];
		this.#waiting[this.#taken++] = undefined;
		if (this.#taken === this.#waiting.length) [this.#waiting, this.#taken] = [[], 0];
		return event;
	}

	#close() {
		for (const reader of this.#readers.splice(0)) reader({ value: undefined, done: true });
	}

	result() {
		return this.#result;
	}

	[Symbol.asyncIterator]() {
		return {
			next: () => {
				if (this.#waiting.length > 0) return Promise.resolve({ value: this.#take(), done: false });
				if (this.#isEnded) return Promise.resolve({ value: undefined, done: true });
				return new Promise((resolve) => this.#readers.push(resolve));
			},
			return: () => Promise.resolve({ value: undefined, done: true }),
		};
	}
}

/** The event stream of an assistant message. */
export class AssistantMessageEventStream extends EventStream {
	constructor() {
		super(
			(event) => event.type === "done" || event.type === "error",
			(event) => (event.type === "done" ? event.message : event.error),
		);
	}
}

export function createAssistantMessageEventStream() {
	return new AssistantMessageEventStream();
}

export function stream(model, context, { signal, onPayload, onResponse, ...options } = {}) {
	const events = new AssistantMessageEventStream();
	const partialMessage = new PartialMessage();
	const failed = (message, reason = "error") =>
		events.push({ type: "error", reason, error: failedMessage(model, partialMessage.content, reason, message) });
	if (signal?.aborted) {
		failed("Request was aborted", "aborted");
		return events;
	}
	let streamId;
	let handled = 0;
	const onEvent = (event) => {
		switch (event.type) {
			case "stream":
				streamId = event.id;
				return;
			case "payload":
				void callOnPayload(event);
				return;
			case "response":
				void callOnResponse(event);
				return;
		}
		const handlerEvent = partialMessage.apply(event);
		if (handlerEvent) events.push(handlerEvent);
		handled += 1;
		if (handled % handledAtOnce === 0) sync("modelEventsHandled", [streamId, handledAtOnce]);
	};
	const over = () => {
		if (streamId !== undefined) sync("modelEventsHandled", [streamId, 0]);
	};
	const wants = { payload: typeof onPayload === "function", response: typeof onResponse === "function" };
	const { promise, cancel } = begin("model", { model, context, options, wants }, undefined, onEvent);
	const giveUp = (message, reason) => {
		cancel();
		over();
		signal?.removeEventListener("abort", abort);
		failed(message, reason);
	};
	const abort = () => giveUp("Request was aborted", "aborted");
	// If a callback throws, the request is not sent.
	const callOnPayload = async ({ number, payload }) => {
		try {
			sync("payloadResult", { streamId, number, payload: await onPayload(payload, model) });
		} catch (error) {
			giveUp(describe(error).message);
		}
	};
	const callOnResponse = async ({ status, headers }) => {
		try {
			await onResponse({ status, headers }, model);
		} catch (error) {
			giveUp(describe(error).message);
		}
	};
	signal?.addEventListener("abort", abort, { once: true });
	promise
		.then(() => failed("the answer ended early"), (error) => failed(error.message))
		.finally(() => {
			over();
			signal?.removeEventListener("abort", abort);
		});
	return events;
}

export const streamSimple = stream;

export async function complete(model, context, options) {
	return stream(model, context, options).result();
}

function failedMessage(model, content, stopReason, errorMessage) {
	return {
		role: "assistant",
		content,
		api: model?.api,
		provider: model?.provider,
		model: model?.id,
		usage: {
			input: 0,
			output: 0,
			cacheRead: 0,
			cacheWrite: 0,
			totalTokens: 0,
			cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
		},
		stopReason,
		errorMessage,
		timestamp: Date.now(),
	};
}

// The built-in models.

export function getModel(provider, id) {
	return getModels(provider).find((model) => model.id === id);
}

export function getModels(provider) {
	return query("models", { read: "catalogue", provider: String(provider) });
}

export function getProviders() {
	return query("models", { read: "catalogueProviders" });
}
