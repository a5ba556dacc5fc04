// Session entries: parsed, followed along a branch, and projected to the model's context.

import { sync } from "tiller:host";

export function parseSessionEntries(text) {
	const entries = [];
	for (const line of String(text).split("\n")) {
		if (line.trim() === "") continue;
		try {
			entries.push(JSON.parse(line));
		} catch {
			// A torn line is skipped.
		}
	}
	return entries;
}

/** From the root to the leaf; to the newest entry if there is no such leaf. */
export function branchOf(entries, leafId) {
	const byId = new Map(entries.filter((entry) => entry.id).map((entry) => [entry.id, entry]));
	const isThere = leafId === null || byId.has(leafId);
	return branchIn(byId, isThere ? leafId : entries.findLast((entry) => entry.id)?.id);
}

export function branchIn(byId, leafId) {
	const branch = [];
	const seen = new Set();
	for (let id = leafId; id && byId.has(id) && !seen.has(id); id = byId.get(id).parentId) {
		seen.add(id);
		branch.push(byId.get(id));
	}
	return branch.reverse();
}

export function getLatestCompactionEntry(entries) {
	return entries.findLast((entry) => entry.type === "compaction") ?? null;
}

/** The model's context of a branch. */
export function buildSessionContext(entries, leafId) {
	const { messages, thinkingLevel, model } = projectionOf(branchOf(entries.filter(isEntry), leafId));
	return { messages, thinkingLevel, model };
}

const isEntry = (entry) => entry.type !== "session";

/** The same, with the source entry of each message. */
export function projectionOf(branch) {
	const byId = new Map(branch.map((entry) => [entry.id, entry]));
	const heads = branch.map(({ id, type, targetId, firstKeptEntryId }) => ({ id, type, refersTo: targetId ?? firstKeptEntryId }));
	const entries = sync("session.project", heads).map(({ id, edit }, index) => {
		const sourceEntry = byId.get(id);
		// The summary of the last compaction comes first; earlier ones do not count.
		const message = sourceEntry.type === "compaction" && index > 0 ? undefined : messageOf(sourceEntry);
		const messages = message ? [message] : [];
		return { sourceEntry, messages: edit ? edited(messages, byId.get(edit).replacement) : messages };
	});
	return {
		entries,
		messages: entries.flatMap((entry) => entry.messages),
		thinkingLevel: branch.findLast((entry) => entry.type === "thinking_level_change")?.thinkingLevel ?? "off",
		model: modelOf(branch),
	};
}

/** The model that was selected or has answered last. */
function modelOf(branch) {
	for (const { type, provider, modelId, message } of branch.toReversed()) {
		if (type === "model_change") return { provider, modelId };
		if (message?.role === "assistant") return { provider: message.provider, modelId: message.model };
	}
	return null;
}

function edited(messages, replacement) {
	return replacement ? messages.map((message) => ({ ...message, content: replacement.content })) : [];
}

function messageOf(entry) {
	const timestamp = Date.parse(entry.timestamp);
	switch (entry.type) {
		case "message":
			return entry.message;
		case "custom_message": {
			const { customType, content, display, details } = entry;
			return { role: "custom", customType, content, display, details, timestamp };
		}
		case "compaction":
			return { role: "compactionSummary", summary: entry.summary, tokensBefore: entry.tokensBefore, timestamp };
		case "branch_summary":
			return { role: "branchSummary", summary: entry.summary, fromId: entry.fromId, timestamp };
		default:
			return undefined;
	}
}
