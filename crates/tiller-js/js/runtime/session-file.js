// Sessions that extensions read and write themselves: files of this or another project, and sessions without
// a file. Only tiller writes the current session.

import { native, query, stringify } from "tiller:host";
import { branchIn, parseSessionEntries, projectionOf } from "tiller:session-entries";

export const CURRENT_SESSION_VERSION = 3;

const files = () => native.importNow("node:fs");
const paths = () => native.importNow("node:path");

function uuid() {
	return native.importNow("pi:ai").uuidv7();
}

/** The folder of a project's sessions, the same as tiller's. Null if they are stored in a database. */
const folderOf = (cwd, sessionDir) => sessionDir || query("session", { read: "projectDir", cwd: String(cwd) });

function headerOf(cwd, { id, parentSession } = {}) {
	const header = { type: "session", version: CURRENT_SESSION_VERSION, id: id ?? uuid(), timestamp: new Date().toISOString(), cwd };
	return parentSession ? { ...header, parentSession } : header;
}

function fileOf(folder, { timestamp, id }) {
	if (!folder) throw new Error("sessions are stored in a database: pass the folder for the file of this one");
	return `${folder}/${timestamp.replace(/[:.]/g, "-")}_${id}.jsonl`;
}

/** The files of a folder, newest first. */
function filesIn(folder) {
	if (!folder || !files().existsSync(folder)) return [];
	const names = files().readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
	const found = names.map((name) => ({ path: `${folder}/${name}`, time: files().statSync(`${folder}/${name}`).mtimeMs }));
	return found.sort((a, b) => b.time - a.time);
}

export class SessionManager {
	#header;
	#entries = [];
	#byId = new Map();
	#leaf = null;
	#folder;
	#file;
	/** How many entries are in the file. The file is created with the first one. */
	#written = 0;

	constructor(header, entries = [], { folder, file, written = 0 } = {}) {
		this.#header = header;
		this.#folder = folder;
		this.#file = file;
		this.#written = written;
		for (const entry of entries) this.#take(entry);
	}

	static inMemory(cwd = query("cwd"), options, entries = []) {
		const header = entries.find((entry) => entry.type === "session") ?? headerOf(cwd, options);
		return new SessionManager(header, entries.filter((entry) => entry.type !== "session"));
	}
	static create(cwd = query("cwd"), sessionDir, options) {
		const folder = folderOf(cwd, sessionDir);
		const header = headerOf(cwd, options);
		return new SessionManager(header, [], { folder, file: fileOf(folder, header) });
	}
	static open(path, sessionDir, cwdOverride) {
		const read = parseSessionEntries(files().readFileSync(path, "utf8"));
		if (read[0]?.type !== "session") throw new Error(`Not a session file: ${path}`);
		const [header, ...entries] = read;
		if (cwdOverride) header.cwd = cwdOverride;
		const folder = sessionDir ?? paths().dirname(path);
		return new SessionManager(header, entries, { folder, file: path, written: entries.length });
	}
	static continueRecent(cwd = query("cwd"), sessionDir) {
		const [newest] = filesIn(folderOf(cwd, sessionDir));
		return newest ? SessionManager.open(newest.path, sessionDir) : SessionManager.create(cwd, sessionDir);
	}
	static forkFrom(sourcePath, targetCwd, sessionDir, options) {
		const source = SessionManager.open(sourcePath);
		const folder = folderOf(targetCwd, sessionDir);
		const header = headerOf(targetCwd, { parentSession: sourcePath, ...options });
		const forked = new SessionManager(header, source.#entries, { folder, file: fileOf(folder, header) });
		forked.#persist();
		return forked;
	}
	static findById(cwd, id, sessionDir) {
		return filesIn(folderOf(cwd, sessionDir)).find(({ path }) => path.endsWith(`_${id}.jsonl`))?.path;
	}
	static async list(cwd = query("cwd"), sessionDir, onProgress) {
		return listed(filesIn(folderOf(cwd, sessionDir)), onProgress);
	}
	static async listAll(...given) {
		const sessionDir = typeof given[0] === "string" ? given.shift() : query("session", { read: "allProjectsDir" });
		if (!sessionDir || !files().existsSync(sessionDir)) return [];
		const folders = files().readdirSync(sessionDir, { withFileTypes: true }).filter((entry) => entry.isDirectory());
		return listed(folders.flatMap(({ name }) => filesIn(`${sessionDir}/${name}`)), given[0]);
	}

	#take(entry) {
		this.#entries.push(entry);
		if (!entry.id) return;
		this.#byId.set(entry.id, entry);
		this.#leaf = entry.id;
	}
	#append(entry) {
		let id;
		do id = globalThis.crypto.randomUUID().replaceAll("-", "").slice(0, 8);
		while (this.#byId.has(id));
		const { type, ...more } = entry;
		const whole = { type, id, parentId: this.#leaf, timestamp: new Date().toISOString(), ...more };
		if (type === "compaction") whole.firstKeptEntryId ??= id;
		if (this.#file !== undefined && this.#file === query("session", { read: "file" })) {
			throw new Error("this session is open in tiller; use ctx.sessionManager to add to it");
		}
		this.#take(whole);
		this.#persist();
		return id;
	}
	#persist() {
		if (this.#file === undefined) return;
		const lines = this.#entries.slice(this.#written);
		if (this.#written === 0) {
			files().mkdirSync(paths().dirname(this.#file), { recursive: true });
			if (!files().existsSync(this.#file)) lines.unshift(this.#header);
		}
		files().appendFileSync(this.#file, lines.map((line) => `${stringify(line)}\n`).join(""));
		this.#written = this.#entries.length;
	}
	#known(id) {
		if (!this.#byId.has(id)) throw new Error(`Entry ${id} not found`);
		return id;
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
		return this.#append({ type: "session_info", name: String(name).trim() });
	}
	appendLabelChange(targetId, label) {
		return this.#append({ type: "label", targetId: this.#known(targetId), label });
	}
	appendModelChange(provider, modelId) {
		return this.#append({ type: "model_change", provider, modelId });
	}
	appendThinkingLevelChange(thinkingLevel) {
		return this.#append({ type: "thinking_level_change", thinkingLevel });
	}
	appendUsage(kind, provider, model, usage, note) {
		return this.#byId.get(this.#append({ type: "usage", kind, provider, model, usage, note }));
	}
	appendCompaction(summary, firstKeptEntryId, tokensBefore, details, fromHook = false) {
		return this.#append({ type: "compaction", summary, firstKeptEntryId, tokensBefore, details, fromHook });
	}
	appendContextEdit(targetId, replacement) {
		return this.#append({ type: "context_edit", targetId: this.#known(targetId), replacement });
	}
	branch(id) {
		this.#leaf = this.#known(id);
	}
	resetLeaf() {
		this.#leaf = null;
	}
	branchWithSummary(id, summary, details, fromHook = false, usage) {
		this.#leaf = id === null ? null : this.#known(id);
		return this.#append({ type: "branch_summary", fromId: id ?? "root", summary, details, fromHook, usage });
	}
	/** Continues in a new file with only the path to this entry. */
	createBranchedSession(id) {
		const branch = this.getBranch(this.#known(id));
		const parentSession = this.#file;
		this.newSession({ parentSession, cwd: this.#header.cwd });
		for (const entry of branch) this.#take(entry);
		this.#persist();
		return this.#file;
	}
	newSession({ cwd = this.#header.cwd, ...options } = {}) {
		this.#header = headerOf(cwd, options);
		this.#entries = [];
		this.#byId = new Map();
		this.#leaf = null;
		this.#written = 0;
		if (this.#file !== undefined) this.#file = fileOf(this.#folder, this.#header);
		return this.#file;
	}

	isPersisted() {
		return this.#file !== undefined;
	}
	getCwd() {
		return this.#header.cwd;
	}
	getSessionDir() {
		return this.#folder ?? "";
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
		return this.#byId.get(this.#leaf);
	}
	getEntry(id) {
		return this.#byId.get(id);
	}
	getEntries() {
		return [...this.#entries];
	}
	getChildren(id) {
		return this.#entries.filter((entry) => entry.parentId === id);
	}
	getBranch(from) {
		return branchIn(this.#byId, from ?? this.#leaf);
	}
	getLabel(id) {
		return this.#entries.findLast((entry) => entry.type === "label" && entry.targetId === id)?.label;
	}
	getSessionName() {
		return this.#entries.findLast((entry) => entry.type === "session_info")?.name?.trim() || undefined;
	}
	getTree() {
		const labels = new Map(this.#entries.filter((entry) => entry.type === "label").map((entry) => [entry.targetId, entry.label]));
		const nodes = new Map(this.#entries.map((entry) => [entry.id, { entry, children: [], label: labels.get(entry.id) }]));
		const roots = [];
		for (const node of nodes.values()) (nodes.get(node.entry.parentId)?.children ?? roots).push(node);
		return roots;
	}
	buildSessionProjection() {
		return projectionOf(this.getBranch());
	}
	buildSessionContext() {
		const { messages, thinkingLevel, model } = this.buildSessionProjection();
		return { messages, thinkingLevel, model };
	}
	buildContextEntries() {
		return this.buildSessionProjection().entries.map((entry) => entry.sourceEntry);
	}
}

/** Metadata for a list of sessions. Invalid files are left out. */
function listed(found, onProgress) {
	const sessions = [];
	for (const [at, { path, time }] of found.entries()) {
		const info = infoOf(path, time);
		if (info) sessions.push(info);
		onProgress?.(at + 1, found.length);
	}
	return sessions.sort((a, b) => b.modified - a.modified);
}

function infoOf(path, time) {
	let session;
	try {
		session = SessionManager.open(path);
	} catch {
		return undefined;
	}
	const isUserOrAssistant = ({ message }) => message?.role === "user" || message?.role === "assistant";
	const messages = session.getEntries().filter((entry) => entry.type === "message" && isUserOrAssistant(entry));
	const texts = messages.map(({ message: { content } }) =>
		typeof content === "string" ? content : (content ?? []).map((block) => block.text ?? "").join(" "),
	);
	const first = messages.findIndex(({ message }) => message.role === "user");
	return {
		path,
		id: session.getSessionId(),
		cwd: session.getCwd() ?? "",
		name: session.getSessionName(),
		parentSessionPath: session.getHeader().parentSession,
		created: new Date(session.getHeader().timestamp),
		modified: new Date(time),
		messageCount: messages.length,
		firstMessage: first < 0 ? "(no messages)" : texts[first],
		allMessagesText: texts.join(" "),
	};
}
