// Session entries: parsed, followed along a branch, and projected to the model's context.

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
	const compaction = getLatestCompactionEntry(branch);
	const edits = new Map(branch.filter((entry) => entry.type === "context_edit").map((entry) => [entry.targetId, entry.replacement]));
	const entries = [];
	if (compaction) entries.push({ sourceEntry: compaction, messages: [messageOf(compaction)] });
	for (const entry of keptOf(branch, compaction)) {
		const message = entry.type === "compaction" ? undefined : messageOf(entry);
		const messages = message ? [message] : [];
		if (edits.has(entry.id)) entries.push({ sourceEntry: entry, messages: edited(messages, edits.get(entry.id)) });
		else entries.push({ sourceEntry: entry, messages });
	}
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

/** The entries a compaction keeps: from the entry it names, or those after it. */
function keptOf(branch, compaction) {
	if (!compaction) return branch;
	const place = branch.indexOf(compaction);
	const first = branch.findIndex((entry) => entry.id === compaction.firstKeptEntryId);
	const before = first < 0 || first >= place ? [] : branch.slice(first, place);
	return [...before, ...branch.slice(place + 1)];
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
