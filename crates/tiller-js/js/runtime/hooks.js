// Calls the handlers of an event or a hook, and combines their results. Each hook has a function that is called with one object: `event`;
// `handlers` in order; `soFar`, the result of earlier engines; `call`, which calls a handler and reports what
// it throws; `live`, the state of the run; `strictly`, which calls a handler and rethrows; and `report`. It
// returns `{outcome, ends}`: the result for the host, and whether later handlers are skipped.

import { boundary } from "tiller:boundary";
import { contextOf, live } from "tiller:context";
import { report as reportError } from "tiller:errors";
import { extensions } from "tiller:extensions";
import { query, runAs, stringify } from "tiller:host";

/** Current handlers of an event, in the order they were registered. */
export function handlersOf(name, first = 0, last = Infinity) {
	const found = [];
	for (const extension of extensions) {
		if (extension.number < first || extension.number > last) continue;
		for (const handle of extension.handlers.get(name) ?? []) found.push({ extension, handle });
	}
	return found;
}

export function runHandler({ extension, handle }, event, context) {
	return runAs(extension, () => handle(event, context ?? contextOf(extension)));
}

/** Runs a hook on these handlers. */
export async function runHandlers(name, fields, soFar, handlers, signal) {
	if (handlers.length === 0) return soFar ?? { outcome: {} };
	const event = { type: name, ...fields };
	if (signal) event.signal = signal;
	const files = event.preparation?.fileOps;
	for (const kind in files) files[kind] = new Set(files[kind]);
	const reduced = name === "project_trust" ? (handler) => contextOf(handler.extension).reduced : () => undefined;
	const strictly = async (handler, event) => runHandler(handler, event, reduced(handler));
	const report = (handler, error) => reportError(handler.extension.path, name, error);
	const call = async (handler, event) => {
		try {
			return await strictly(handler, event);
		} catch (error) {
			report(handler, error);
			return undefined;
		}
	};
	return hooks[name]({ event, handlers, soFar, call, live, strictly, report });
}

/** Calls handlers until one cancels; the last object returned counts. */
async function cancellable({ event, handlers, soFar, call }) {
	let outcome = soFar?.outcome;
	for (const handler of handlers) {
		const answer = await call(handler, event);
		if (!isObject(answer)) continue;
		outcome = answer;
		if (answer.cancel) return { outcome: { ...answer, cancel: true }, ends: true };
	}
	return { outcome: outcome ? { ...outcome, cancel: false } : {} };
}

/** Changes to messages chain, in place or by a returned value. */
async function messages({ event, handlers, soFar, call, report }) {
	let current = soFar?.outcome?.messages ?? event.messages;
	let changed = soFar?.outcome?.messages !== undefined;
	const before = changed ? undefined : stringify(current);
	let hadSystem = current[0]?.role === "system";
	for (const handler of handlers) {
		const handlerEvent = { ...event, messages: current };
		const answer = await call(handler, handlerEvent);
		if (isObject(answer) && Array.isArray(answer.messages)) {
			current = answer.messages;
			changed = true;
		} else if (Array.isArray(handlerEvent.messages)) {
			current = handlerEvent.messages;
		}
		if (hadSystem && current[0]?.role !== "system") {
			hadSystem = false;
			report(handler, new Error("context_with_system lost the leading system message: the model gets no prompt and no tools"));
		}
	}
	changed ||= stringify(current) !== before;
	return { outcome: changed ? { messages: current } : {} };
}

const hooks = {
	session_before_switch: cancellable,
	session_before_fork: cancellable,
	session_before_compact: cancellable,
	session_before_tree: cancellable,
	context: messages,
	context_with_system: messages,
	turn_end: boundary,
	agent_before_settle: boundary,

	async project_trust({ event, handlers, soFar, call }) {
		if (soFar?.ends) return soFar;
		for (const handler of handlers) {
			const answer = await call(handler, event);
			if (answer?.trusted === "yes" || answer?.trusted === "no") {
				return { outcome: { trusted: answer.trusted, remember: answer.remember === true }, ends: true };
			}
		}
		return { outcome: {} };
	},

	async resources_discover({ event, handlers, soFar, call }) {
		const outcome = { skillPaths: [], promptPaths: [], themePaths: [], ...soFar?.outcome };
		for (const handler of handlers) {
			const answer = await call(handler, event);
			if (!isObject(answer)) continue;
			for (const kind of ["skillPaths", "promptPaths", "themePaths"]) {
				for (const path of answer[kind] ?? []) outcome[kind].push([String(path), handler.extension.path]);
			}
		}
		return { outcome };
	},

	async input({ event, handlers, soFar, call }) {
		let outcome = soFar?.outcome ?? { action: "continue" };
		const current = { ...event };
		if (outcome.action === "transform") {
			current.text = outcome.text;
			if (outcome.images) current.images = outcome.images;
		}
		for (const handler of handlers) {
			const answer = await call(handler, { ...current });
			if (answer?.action === "handled") return { outcome: { action: "handled" }, ends: true };
			if (answer?.action !== "transform") continue;
			current.text = String(answer.text);
			if (answer.images !== undefined) current.images = answer.images;
			outcome = { action: "transform", text: current.text, images: current.images };
		}
		return { outcome };
	},

	async before_agent_start({ event, handlers, soFar, call, live }) {
		const outcome = { messages: [], ...soFar?.outcome };
		const options = outcome.systemPromptOptions ?? event.systemPromptOptions;
		const before = stringify(event.systemPromptOptions);
		const handlerEvent = { ...event, systemPromptOptions: options };
		// The prompt after the handlers so far: as a whole, or in parts.
		const prompt = () => {
			if (outcome.systemPrompt !== undefined) return outcome.systemPrompt;
			const now = handlerEvent.systemPromptOptions;
			return stringify(now) === before ? event.systemPrompt : query("renderedPrompt", { options: now });
		};
		live.systemPrompt = prompt;
		Object.defineProperty(handlerEvent, "systemPrompt", { get: prompt, enumerable: true });
		for (const handler of handlers) {
			const answer = await call(handler, handlerEvent);
			if (!isObject(answer)) continue;
			if (answer.message) outcome.messages.push(answer.message);
			if (typeof answer.systemPrompt === "string") outcome.systemPrompt = answer.systemPrompt;
		}
		live.systemPrompt = undefined;
		if (stringify(handlerEvent.systemPromptOptions) !== before) outcome.systemPromptOptions = handlerEvent.systemPromptOptions;
		return { outcome };
	},

	async user_bash({ event, handlers, soFar, strictly, report }) {
		if (soFar?.ends) return soFar;
		const { answered } = await import("tiller:bash");
		for (const handler of handlers) {
			try {
				const answer = await strictly(handler, event);
				if (answer !== undefined) return { outcome: answered(answer, handler.extension), ends: true };
			} catch (error) {
				report(handler, error);
				throw error;
			}
		}
		return { outcome: {} };
	},

	async message_end({ event, handlers, soFar, call, report }) {
		let current = soFar?.outcome?.message ?? event.message;
		let changed = soFar?.outcome?.message !== undefined;
		for (const handler of handlers) {
			const answer = await call(handler, { ...event, message: current });
			if (!isObject(answer?.message)) continue;
			if (answer.message.role !== current.role) {
				report(handler, new Error("message_end handlers must return a message with the same role"));
				continue;
			}
			current = answer.message;
			changed = true;
		}
		return { outcome: changed ? { message: current } : {} };
	},

	async tool_call({ event, handlers, soFar, strictly }) {
		const before = soFar?.outcome?.input ?? event.input;
		const text = stringify(before);
		const handlerEvent = { ...event, input: before };
		const changed = () => (stringify(handlerEvent.input) === text ? soFar?.outcome?.input : handlerEvent.input);
		for (const handler of handlers) {
			const answer = await strictly(handler, handlerEvent);
			if (answer?.block) {
				const block = answer.reason ? String(answer.reason) : "Tool execution was blocked";
				return { outcome: { block, terminate: answer.terminate === true, input: changed() }, ends: true };
			}
		}
		return { outcome: { input: changed() } };
	},

	async tool_result({ event, handlers, soFar, call }) {
		const changed = { ...soFar?.outcome };
		const handlerEvent = { ...event, ...changed };
		// Changes in place count as well.
		const before = ["content", "details"].map((field) => [field, stringify(handlerEvent[field])]);
		for (const handler of handlers) {
			const answer = await call(handler, handlerEvent);
			if (!isObject(answer)) continue;
			for (const field of ["content", "details", "isError", "usage"]) {
				if (answer[field] !== undefined) handlerEvent[field] = changed[field] = answer[field];
			}
		}
		for (const [field, text] of before) {
			if (stringify(handlerEvent[field]) !== text) changed[field] = handlerEvent[field];
		}
		return { outcome: changed };
	},

	async before_provider_request({ event, handlers, soFar, call }) {
		let payload = soFar?.outcome?.payload ?? event.payload;
		let changed = soFar?.outcome?.payload !== undefined;
		const text = stringify(payload);
		for (const handler of handlers) {
			const answer = await call(handler, { ...event, payload });
			if (answer === undefined) continue;
			payload = answer;
			changed = true;
		}
		return { outcome: changed || stringify(payload) !== text ? { payload } : {} };
	},

	async before_provider_headers({ event, handlers, soFar, call }) {
		const headers = soFar?.outcome?.headers ?? event.headers;
		for (const handler of handlers) await call(handler, { ...event, headers });
		return { outcome: { headers } };
	},
};

function isObject(value) {
	return typeof value === "object" && value !== null;
}
