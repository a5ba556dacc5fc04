// Session files, read by extensions on their own account, and sessions that are in no file.

import { native, query, stringify } from "tiller:host";
import { convertToLlm } from "tiller:conversation";

export const CURRENT_SESSION_VERSION = 3;

export function parseSessionEntries(text) {
	const entries = [];
	for (const line of String(text).split("\n")) {
		if (line.trim() === "") continue;
		try {
			entries.push(JSON.parse(line));
		} catch {
			// A line that was torn off is none.
		}
	}
	return entries;
}

function branchOf(entries, leafId) {
	const byId = new Map(entries.filter((entry) => entry.id).map((entry) => [entry.id, entry]));
	const branch = [];
	const seen = new Set();
	let id = leafId === undefined ? entries.findLast((entry) => entry.id)?.id : leafId;
	while (id && byId.has(id) && !seen.has(id)) {
		seen.add(id);
		branch.unshift(byId.get(id));
		id = byId.get(id).parentId;
	}
	return branch;
}

export function getLatestCompactionEntry(entries) {
	return entries.findLast((entry) => entry.type === "compaction") ?? null;
}

/** What the model would see of a branch. */
export function buildSessionContext(entries, leafId) {
	const branch = branchOf(entries, leafId);
	const compaction = getLatestCompactionEntry(branch);
	const place = compaction ? branch.indexOf(compaction) : -1;
	const kept = compaction ? branch.slice(Math.max(0, branch.findIndex((entry) => entry.id === compaction.firstKeptEntryId))) : branch;
	const messages = compaction ? [{ role: "compactionSummary", summary: compaction.summary, tokensBefore: compaction.tokensBefore, timestamp: Date.parse(compaction.timestamp) }] : [];
	for (const entry of kept) {
		if (entry.type === "message") messages.push(entry.message);
		else if (entry.type === "custom_message") messages.push({ role: "custom", customType: entry.customType, content: entry.content, display: entry.display, details: entry.details, timestamp: Date.parse(entry.timestamp) });
		else if (entry.type === "branch_summary" && branch.indexOf(entry) > place) messages.push({ role: "branchSummary", summary: entry.summary, fromId: entry.fromId, timestamp: Date.parse(entry.timestamp) });
	}
	const model = branch.findLast((entry) => entry.type === "model_change");
	return {
		messages,
		thinkingLevel: branch.findLast((entry) => entry.type === "thinking_level_change")?.thinkingLevel ?? "off",
		model: model ? { provider: model.provider, modelId: model.modelId } : null,
	};
}

function shortId() {
	return globalThis.crypto.randomUUID().replaceAll("-", "").slice(0, 8);
}

/** A session in memory, or one of the files of this or another project. */
export class SessionManager {
	#entries = [];
	#header;
	#file;
	#leaf = null;

	constructor(header, entries, file) {
		this.#header = header;
		this.#entries = entries;
		this.#file = file;
		this.#leaf = entries.findLast((entry) => entry.id)?.id ?? null;
	}

	static #made(cwd, file) {
		const header = { type: "session", version: CURRENT_SESSION_VERSION, id: native.importNow("pi:ai").uuidv7(), timestamp: new Date().toISOString(), cwd };
		return new SessionManager(header, [], file);
	}
	static inMemory(cwd = query("cwd")) {
		return SessionManager.#made(cwd, undefined);
	}
	static create(cwd = query("cwd"), sessionDir) {
		const folder = sessionDir ?? query("session", { read: "dir" });
		const manager = SessionManager.#made(cwd, undefined);
		if (folder) manager.#file = `${folder}/${manager.#header.timestamp.replace(/[:.]/g, "-")}_${manager.#header.id}.jsonl`;
		return manager;
	}
	static open(path) {
		const { readFileSync } = native.importNow("node:fs");
		const [header, ...entries] = parseSessionEntries(readFileSync(path, "utf8"));
		return new SessionManager(header ?? {}, entries, path);
	}
	static continueRecent(cwd, sessionDir) {
		const newest = SessionManager.#files(sessionDir ?? query("session", { read: "dir" })).sort((a, b) => b.time - a.time)[0];
		return newest ? SessionManager.open(newest.path) : SessionManager.create(cwd, sessionDir);
	}
	static #files(folder) {
		const fs = native.importNow("node:fs");
		if (!folder || !fs.existsSync(folder)) return [];
		const names = fs.readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
		return names.map((name) => ({ path: `${folder}/${name}`, time: fs.statSync(`${folder}/${name}`).mtimeMs }));
	}
	static #info({ path, time }) {
		const manager = SessionManager.open(path);
		const messages = manager.getEntries().filter((entry) => entry.type === "message");
		const textOf = ({ message }) => (typeof message.content === "string" ? message.content : (message.content ?? []).map((block) => block.text ?? "").join(" "));
		return {
			path,
			id: manager.getSessionId(),
			cwd: manager.getCwd(),
			name: manager.getSessionName(),
			created: new Date(manager.getHeader().timestamp),
			modified: new Date(time),
			messageCount: messages.length,
			firstMessage: messages.length > 0 ? textOf(messages[0]) : "",
			allMessagesText: messages.map(textOf).join(" "),
		};
	}
	static async list(_cwd, sessionDir) {
		const files = SessionManager.#files(sessionDir ?? query("session", { read: "dir" }));
		return files.map(SessionManager.#info).sort((a, b) => b.modified - a.modified);
	}
	static async listAll() {
		const fs = native.importNow("node:fs");
		const folder = query("session", { read: "dir" });
		const root = folder?.replace(/\/[^/]*$/, "");
		if (!root || !fs.existsSync(root)) return [];
		const folders = fs.readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
		const files = folders.flatMap((entry) => SessionManager.#files(`${root}/${entry.name}`));
		return files.map(SessionManager.#info).sort((a, b) => b.modified - a.modified);
	}

	#append(entry) {
		const whole = { ...entry, id: shortId(), parentId: this.#leaf, timestamp: new Date().toISOString() };
		this.#entries.push(whole);
		this.#leaf = whole.id;
		if (this.#file) this.#write(whole);
		return whole.id;
	}
	#write(entry) {
		const fs = native.importNow("node:fs");
		if (!fs.existsSync(this.#file)) fs.writeFileSync(this.#file, `${stringify(this.#header)}\n`);
		fs.appendFileSync(this.#file, `${stringify(entry)}\n`);
	}
	appendMessage(message) {
		return this.#append({ type: "message", message });
	}
	appendCustomEntry(customType, data) {
		return this.#append({ type: "custom", customType, data });
	}
	appendCustomMessageEntry(customType, content, display, details) {
		return this.#append({ type: "custom_message", customType, content, display, details });
	}
	appendSessionInfo(name) {
		return this.#append({ type: "session_info", name });
	}
	appendLabelChange(targetId, label) {
		return this.#append({ type: "label", targetId, label });
	}
	appendModelChange(provider, modelId) {
		return this.#append({ type: "model_change", provider, modelId });
	}
	appendThinkingLevelChange(thinkingLevel) {
		return this.#append({ type: "thinking_level_change", thinkingLevel });
	}
	appendCompaction(summary, firstKeptEntryId, tokensBefore, details) {
		return this.#append({ type: "compaction", summary, firstKeptEntryId, tokensBefore, details });
	}
	branch(id) {
		this.#leaf = id;
	}
	resetLeaf() {
		this.#leaf = null;
	}
	isPersisted() {
		return this.#file !== undefined;
	}
	getCwd() {
		return this.#header.cwd;
	}
	getSessionDir() {
		return this.#file?.replace(/\/[^/]*$/, "") ?? "";
	}
	getSessionId() {
		return this.#header.id;
	}
	getSessionFile() {
		return this.#file;
	}
	getHeader() {
		return this.#header;
	}
	getLeafId() {
		return this.#leaf;
	}
	getLeafEntry() {
		return this.getEntry(this.#leaf);
	}
	getEntry(id) {
		return this.#entries.find((entry) => entry.id === id);
	}
	getEntries() {
		return [...this.#entries];
	}
	getBranch(from) {
		return branchOf(this.#entries, from ?? this.#leaf);
	}
	getLabel(id) {
		return this.#entries.findLast((entry) => entry.type === "label" && entry.targetId === id)?.label;
	}
	getSessionName() {
		return this.#entries.findLast((entry) => entry.type === "session_info")?.name;
	}
	getTree() {
		const nodes = new Map(this.#entries.map((entry) => [entry.id, { entry, children: [], label: this.getLabel(entry.id) }]));
		const roots = [];
		for (const node of nodes.values()) (nodes.get(node.entry.parentId)?.children ?? roots).push(node);
		return roots;
	}
	buildSessionContext() {
		return buildSessionContext(this.#entries, this.#leaf);
	}
	buildContextEntries() {
		return this.getBranch();
	}
	toLlm() {
		return convertToLlm(this.buildSessionContext().messages);
	}
}
