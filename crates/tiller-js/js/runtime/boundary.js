// `turn_end` and `agent_before_settle`: the entries that extensions propose to store, and a preview of the
// conversation with them.

import { query } from "tiller:host";
import { convertToLlm } from "tiller:conversation";

/** Each handler sees what earlier handlers proposed; its answer replaces that. */
export async function boundary({ event, handlers, soFar, call, report }) {
	const outcome = { ...soFar?.outcome };
	for (const handler of handlers) {
		const handlerEvent = { ...event, entries: outcome.entries ?? [], continue: outcome.continue ?? false };
		const drafts = handlerEvent.entries;
		defineLazily(handlerEvent, "context", () => preview(drafts));
		const answer = await call(handler, handlerEvent);
		if (typeof answer !== "object" || answer === null) continue;
		if (typeof answer.continue === "boolean") outcome.continue = answer.continue;
		if (!Array.isArray(answer.entries)) continue;
		outcome.entries = answer.entries;
		const problem = problemWith(answer.entries);
		outcome.isInvalid = problem !== undefined;
		if (outcome.isInvalid) report(handler, new Error(`Invalid boundary entries: ${problem}`));
	}
	return { outcome };
}

/** Computes a property on first access: a conversation is long, and most handlers do not read it. */
function defineLazily(object, name, make) {
	let value;
	Object.defineProperty(object, name, { get: () => (value ??= make()), enumerable: true });
}

const checks = {
	custom: ({ customType }) => (typeof customType === "string" ? undefined : "customType must be a string"),
	custom_message({ customType, content }) {
		if (typeof customType !== "string") return "customType must be a string";
		if (typeof content !== "string" && !Array.isArray(content)) return "content must be a string or an array";
	},
	context_edit({ targetId, replacement }) {
		if (replacement !== null && replacement?.content === undefined) return "replacement must be null or have content";
		return missing(targetId);
	},
	compaction({ summary, firstKeptEntryId }) {
		if (typeof summary !== "string") return "summary must be a string";
		return firstKeptEntryId === null ? undefined : missing(firstKeptEntryId);
	},
};

function missing(id) {
	const entry = query("session", { read: "entry", id: String(id) });
	return entry ? undefined : `Entry ${id} not found`;
}

function problemWith(drafts) {
	for (const draft of drafts) {
		const check = Object.hasOwn(checks, draft?.type) ? checks[draft.type] : () => `Unknown entry type ${draft?.type}`;
		const problem = check(draft);
		if (problem !== undefined) return problem;
	}
	return undefined;
}

/** The conversation with these entries. */
function preview(drafts) {
	let contextEntries = query("session", { read: "projection" }).entries;
	for (const draft of drafts) contextEntries = withDraft(contextEntries, draft);
	const contextMessages = contextEntries.flatMap((entry) => entry.messages);
	const pendingMessages = query("pendingMessages");
	const last = contextMessages.at(-1);
	return {
		contextEntries,
		contextMessages,
		llmMessages: convertToLlm(contextMessages),
		pendingMessages,
		canContinue: pendingMessages.length > 0 || (last !== undefined && last.role !== "assistant"),
	};
}

function withDraft(entries, draft) {
	const timestamp = Date.now();
	const projected = (sourceEntry, messages) => ({ sourceEntry, messages });
	switch (draft?.type) {
		case "custom_message": {
			const { customType, content, display, details } = draft;
			return [...entries, projected(draft, [{ role: "custom", customType, content, display, details, timestamp }])];
		}
		case "context_edit": {
			const { targetId, replacement } = draft;
			const edited = (messages) =>
				replacement === null ? [] : messages.map((message) => ({ ...message, content: replacement.content }));
			return entries.map((entry) =>
				entry.sourceEntry.id === targetId ? projected(entry.sourceEntry, edited(entry.messages)) : entry,
			);
		}
		case "compaction": {
			const { summary, firstKeptEntryId } = draft;
			const from = entries.findIndex((entry) => entry.sourceEntry.id === firstKeptEntryId);
			const kept = from < 0 ? [] : entries.slice(from);
			return [projected(draft, [{ role: "compactionSummary", summary, tokensBefore: 0, timestamp }]), ...kept];
		}
		case "custom":
			return [...entries, projected(draft, [])];
		default:
			return entries;
	}
}
