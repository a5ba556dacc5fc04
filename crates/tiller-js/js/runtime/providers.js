// Calls the providers that extensions registered: for an answer, or for a key.

import { request } from "tiller:host";
import { convertToLlm } from "tiller:conversation";
import { getCurrentSystemPrompt, getCurrentTools } from "tiller:transcript";

/** Has a provider answer, and sends the host what each event adds. */
export async function answer(config, name, { model, context, options }, signal, onEvent) {
	const streams = config?.streamSimple ?? config?.stream;
	if (typeof streams !== "function") throw new Error(`Provider ${name} does not stream`);
	const auth = options.apiKey ? {} : await ownAuth(config, signal);
	const more = {
		onPayload: async (payload) => (await request("beforeProviderRequest", { payload })) ?? undefined,
		onResponse: ({ status, headers } = {}) => request("afterProviderResponse", { status, headers: { ...headers } }),
	};
	const headers = { ...auth.headers, ...options.headers };
	const given = { ...more, ...options, apiKey: options.apiKey ?? auth.apiKey, headers, signal };
	const events = await streams.call(config, model, transcript(context), given);
	if (typeof events?.[Symbol.asyncIterator] !== "function") throw new Error(`Provider ${name} gave no stream of events`);
	await forwardEvents(events[Symbol.asyncIterator](), signal, onEvent);
}

/** Reads until the last event, or until the signal fires: a provider that ignores the signal is not awaited. */
async function forwardEvents(events, signal, onEvent) {
	const aborted = new Promise((resolve) => {
		if (signal.aborted) resolve({ done: true });
		signal.addEventListener("abort", () => resolve({ done: true }), { once: true });
	});
	for (;;) {
		const { value: event, done } = await Promise.race([aborted, events.next()]);
		if (done) break;
		const lean = leanEvent(event);
		if (lean) onEvent(lean);
		if (lean?.type === "done" || lean?.type === "error") break;
	}
	events.return?.()?.catch?.(() => {});
}

/** Older providers read the prompt and the tools beside the messages. These properties are not enumerable, so
 * that they are not sent twice when a provider passes the conversation on. */
function transcript({ messages }) {
	const context = { messages: convertToLlm(messages) };
	const hidden = (get) => ({ get, enumerable: false });
	return Object.defineProperties(context, {
		systemPrompt: hidden(() => getCurrentSystemPrompt(context.messages)),
		tools: hidden(() => getCurrentTools(context.messages)),
	});
}

/** An event without the partial message, of which only what deltas do not show is kept. */
function leanEvent(event) {
	const { type, contentIndex, delta, content, reason } = event ?? {};
	const block = event?.partial?.content?.[contentIndex];
	switch (type) {
		case "start":
		case "text_start":
		case "thinking_start":
			return { type, contentIndex };
		case "toolcall_start":
			return { type, contentIndex, id: event.id ?? block?.id, name: event.toolName ?? block?.name };
		case "text_delta":
		case "thinking_delta":
		case "toolcall_delta":
			return { type, contentIndex, delta };
		case "text_end":
			return { type, contentIndex, content: content ?? block?.text, textSignature: block?.textSignature };
		case "thinking_end": {
			const { thinkingSignature, redacted } = block ?? {};
			return { type, contentIndex, content: content ?? block?.thinking, thinkingSignature, redacted };
		}
		case "toolcall_end":
			return { type, contentIndex, toolCall: event.toolCall ?? block };
		case "done":
			return { type, reason, message: event.message };
		case "error":
			return { type, reason, error: event.error };
		default:
			return undefined;
	}
}

/** The credentials of a provider that is an object with methods. */
async function ownAuth(config, signal) {
	const resolve = config.auth?.apiKey?.resolve;
	if (typeof resolve !== "function") return {};
	const { env } = globalThis.process;
	const ctx = { env: (name) => env[name], fileExists: () => false };
	const found = await resolve.call(config.auth.apiKey, { ctx, signal });
	if (!found) throw new Error(`No API key found for ${config.id}`);
	return found.auth ?? {};
}

/** Makes a key from a stored credential, which is renewed first if it has expired. */
export async function keyOf(config, credential, signal) {
	const oauth = config?.oauth ?? config?.auth?.oauth;
	if (!oauth) throw new Error("the provider has no sign-in");
	let renewed;
	if (Number(credential.expires) <= Date.now()) {
		renewed = await (oauth.refreshToken ?? oauth.refresh).call(oauth, credential, signal);
		renewed = { ...credential, ...renewed };
	}
	const current = renewed ?? credential;
	const key = oauth.getApiKey ? await oauth.getApiKey(current) : (await oauth.toAuth(current))?.apiKey;
	return { key, renewed };
}
