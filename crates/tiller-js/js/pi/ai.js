// The part of pi-ai that extensions use: schemas, requests to models, and helpers for messages.

import { query, sync } from "tiller:host";
import {
	AssistantMessageEventStream,
	complete,
	createAssistantMessageEventStream,
	EventStream,
	getModel,
	getModels,
	getProviders,
	stream,
	streamSimple,
} from "tiller:completion";
import { parsePartial } from "tiller:partial-message";
import {
	collapseSystemMessages,
	contentText,
	createInitialSystemMessage,
	getCurrentSystemMessage,
	getCurrentSystemPrompt,
	getCurrentTools,
	getDeclaredTools,
	getInitialSystemMessage,
	getSystemMessageText,
	normalizeContext,
	resolveTranscript,
	withoutInitialSystemMessage,
} from "tiller:transcript";
import { Type } from "pi:typebox";

export { Type, AssistantMessageEventStream, EventStream, createAssistantMessageEventStream, complete, stream, streamSimple, getModel, getModels, getProviders };
export { complete as completeSimple, getModel as getBuiltinModel, getModels as getBuiltinModels, getProviders as getBuiltinProviders };
export { collapseSystemMessages, contentText, createInitialSystemMessage, getCurrentSystemMessage, getCurrentSystemPrompt, getCurrentTools, getDeclaredTools, getInitialSystemMessage, getSystemMessageText, normalizeContext, resolveTranscript, withoutInitialSystemMessage };

export function StringEnum(values, options) {
	return Type.Unsafe({ type: "string", enum: [...values], ...options });
}

/** Fills in the cost of the tokens, at prices per million. A prompt longer than a tier's bound has that
 * tier's prices, and an hour in the cache costs twice the input. */
export function calculateCost(model, usage) {
	const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0 } = usage;
	const prompt = input + cacheRead + cacheWrite;
	const passed = (model.cost?.tiers ?? []).filter((tier) => tier.inputTokensAbove < prompt);
	const rates = passed.reduce((best, tier) => (best.inputTokensAbove > tier.inputTokensAbove ? best : tier), model.cost ?? {});
	const price = (tokens, rate) => ((rate ?? 0) / 1_000_000) * tokens;
	const long = Math.min(usage.cacheWrite1h ?? 0, cacheWrite);
	const cost = {
		input: price(input, rates.input),
		output: price(output, rates.output),
		cacheRead: price(cacheRead, rates.cacheRead),
		cacheWrite: price(cacheWrite - long, rates.cacheWrite) + price(long, (rates.input ?? 0) * 2),
	};
	// Changed in place, because the caller may hold the object.
	usage.cost = Object.assign(usage.cost ?? {}, cost);
	usage.cost.total = cost.input + cost.output + cost.cacheRead + cost.cacheWrite;
	return usage.cost;
}

const levels = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

export function getSupportedThinkingLevels(model) {
	if (!model?.reasoning) return ["off"];
	const map = model.thinkingLevelMap ?? {};
	return levels.filter((level) => (level in map ? map[level] !== null : level !== "xhigh" && level !== "max"));
}

export function clampThinkingLevel(model, level) {
	const known = getSupportedThinkingLevels(model);
	const wanted = levels.indexOf(level);
	return known.find((each) => levels.indexOf(each) >= wanted) ?? known.at(-1) ?? "off";
}

export function supportsXhigh(model) {
	return getSupportedThinkingLevels(model).includes("xhigh");
}

export function modelsAreEqual(a, b) {
	return a?.provider === b?.provider && a?.id === b?.id;
}

export function uuidv7(ms = Date.now()) {
	const bytes = sync("crypto.random", 16);
	for (let at = 5, rest = ms; at >= 0; at--, rest = Math.floor(rest / 256)) bytes[at] = rest % 256;
	bytes[6] = (bytes[6] & 0x0f) | 0x70;
	bytes[8] = (bytes[8] & 0x3f) | 0x80;
	const hex = sync("text.toHex", undefined, bytes);
	return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const apis = new Map();

export function registerApiProvider(provider) {
	apis.set(provider.api, provider);
}
export function getApiProvider(api) {
	return apis.get(api) ?? { api, stream, streamSimple };
}
export function getApiProviders() {
	return [...apis.values()];
}
export function unregisterApiProviders() {
	apis.clear();
}
export function registerBuiltInApiProviders() {}
export function resetApiProviders() {
	apis.clear();
}

// In pi each API is a module that is loaded on first use.
const api = () => ({ stream, streamSimple });
export { api as anthropicMessagesApi, api as openAIResponsesApi, api as openAICompletionsApi, api as googleGenerativeAIApi };

export function getEnvApiKey(provider) {
	const name = `${String(provider).toUpperCase().replace(/[^A-Z0-9]/g, "_")}_API_KEY`;
	return globalThis.process.env[name];
}

/** Whether a provider says that a request is too long, or accepts it and counts more tokens than fit. */
export function isContextOverflow(message, contextWindow) {
	const { input = 0, cacheRead = 0 } = message?.usage ?? {};
	if (contextWindow && message?.stopReason === "stop" && input + cacheRead > contextWindow) return true;
	return /context.{0,20}(length|window|limit)|too many tokens|prompt is too long/i.test(message?.errorMessage ?? "");
}

export { parsePartial as parseStreamingJson };

/** Validates arguments against the tool's schema, with conversions where they are unambiguous. */
export function validateToolArguments(tool, call) {
	return sync("checkArguments", { tool: tool.name, schema: tool.parameters, arguments: call.arguments });
}

export function validateToolCall(tools, call) {
	const tool = tools.find((each) => each.name === call.name);
	if (!tool) throw new Error(`Tool "${call.name}" not found`);
	return validateToolArguments(tool, call);
}

// In pi each API has its own functions; here they are the same.
export { stream as streamAnthropic, stream as streamOpenAICompletions, stream as streamOpenAIResponses, stream as streamGoogle, stream as streamSimpleAnthropic, stream as streamSimpleOpenAICompletions, stream as streamSimpleOpenAIResponses, stream as streamSimpleGoogle };

export function createModels() {
	return { getModel, getModels, getProviders, stream, streamSimple, complete, getAll: () => query("models", { read: "all" }) };
}
