// The part of pi's agent package that needs no nested agent.

import { uuidv7 } from "pi:ai";
import { convertToLlm, serializeConversation, truncateHead, truncateLine, truncateTail, formatSize } from "pi:coding-agent";

export { uuidv7, convertToLlm, serializeConversation, truncateHead, truncateLine, truncateTail, formatSize };

export class Agent {
	constructor() {
		throw new Error("Agent of pi-agent-core is not available inside tiller");
	}
}

export const ok = (value) => ({ ok: true, value });
export const err = (error) => ({ ok: false, error });
export function getOrThrow(result) {
	if (result.ok) return result.value;
	throw result.error;
}
export const getOrUndefined = (result) => (result.ok ? result.value : undefined);
export const toError = (value) => (value instanceof Error ? value : new Error(String(value)));
