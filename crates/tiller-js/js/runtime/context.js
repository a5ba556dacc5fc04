// `ctx`: what a handler, a tool or a command sees of the session. Values are read when they are accessed.

import { act, as, facts, query, request } from "tiller:host";
import { report } from "tiller:errors";
import { alive, extensions, sendMessage, sendUserMessage } from "tiller:extensions";
import { sessionManager } from "tiller:session";
import { modelRegistry } from "tiller:models";
import { uiOf } from "tiller:ui";

/** State of the current run and hook. */
export const live = {
	/** The prompt so far, during `before_agent_start`. */
	systemPrompt: undefined,
};

let run;

/** Called by the host when a run begins, is aborted, or ends. */
export function runSignal(word) {
	if (word === "began") run = new AbortController();
	else if (word === "aborted") run?.abort();
	else run = undefined;
}

/** The contexts of an extension: for events and tools, for commands, and a small one. */
export function contextOf(extension) {
	extension.contexts ??= make(extension);
	return extension.contexts;
}

function make(extension) {
	const its = extension.age;
	const ui = uiOf(its);
	const manager = sessionManager(its);
	const registry = modelRegistry(its, extension);
	const shared = {
		get ui() {
			alive(its);
			return ui;
		},
		get mode() {
			alive(its);
			return facts.mode;
		},
		get hasUI() {
			alive(its);
			return facts.hasUI;
		},
		get cwd() {
			alive(its);
			return query("cwd");
		},
		get sessionManager() {
			alive(its);
			return manager;
		},
		get modelRegistry() {
			alive(its);
			return registry;
		},
		get model() {
			alive(its);
			return query("model") ?? undefined;
		},
		get scopedModels() {
			alive(its);
			return query("scopedModels");
		},
		get thinkingLevel() {
			alive(its);
			return query("thinkingLevel");
		},
		isIdle() {
			alive(its);
			return query("isIdle");
		},
		isProjectTrusted() {
			alive(its);
			return query("isProjectTrusted");
		},
		get signal() {
			alive(its);
			return run?.signal;
		},
		abort() {
			alive(its);
			act("abort");
		},
		hasPendingMessages() {
			alive(its);
			return query("hasPendingMessages");
		},
		shutdown() {
			alive(its);
			act("shutdown");
		},
		getContextUsage() {
			alive(its);
			return query("contextUsage") ?? undefined;
		},
		compact({ customInstructions, onComplete, onError } = {}) {
			alive(its);
			request("compact", { customInstructions })
				.then((result) => onComplete?.(result), (error) => onError?.(error))
				.catch((error) => report(extension.path, "compact", error));
		},
		getSystemPrompt() {
			alive(its);
			return live.systemPrompt?.() ?? query("systemPrompt");
		},
	};
	const inCommands = {
		getSystemPromptOptions() {
			alive(its);
			return query("systemPromptOptions");
		},
		async waitForIdle() {
			alive(its);
			await request("waitForIdle");
		},
		async newSession({ parentSession, setup, withSession } = {}) {
			alive(its);
			const entries = [];
			if (setup) await setup(recorder(manager, entries));
			return changed(extension, await request("newSession", { parentSession, entries }), withSession);
		},
		async fork(entryId, { position, withSession } = {}) {
			alive(its);
			return changed(extension, await request("fork", { entryId, position }), withSession);
		},
		async navigateTree(targetId, { summarize, customInstructions, replaceInstructions, label } = {}) {
			alive(its);
			const options = { summarize, customInstructions, replaceInstructions, label };
			return request("navigateTree", { targetId, options });
		},
		async switchSession(path, { withSession } = {}) {
			alive(its);
			return changed(extension, await request("switchSession", { path }), withSession);
		},
		async reload() {
			alive(its);
			await request("reload");
		},
	};
	const contexts = shared;
	const command = Object.defineProperties({}, Object.getOwnPropertyDescriptors(shared));
	Object.defineProperties(command, Object.getOwnPropertyDescriptors(inCommands));
	const { select, confirm, input, notify } = ui;
	const reduced = {
		get cwd() {
			return query("cwd");
		},
		mode: facts.mode,
		hasUI: facts.hasUI,
		ui: { select, confirm, input, notify },
	};
	Object.defineProperty(contexts, "command", { value: command });
	Object.defineProperty(contexts, "reduced", { value: reduced });
	return contexts;
}

/** After a session change: calls `withSession` with a context of the new session. */
async function changed(extension, result, withSession) {
	if (result?.cancelled || !withSession) return result;
	const current = extensions.find((other) => other.number === extension.number) ?? extension;
	const fresh = Object.defineProperties({}, Object.getOwnPropertyDescriptors(contextOf(current).command));
	// In `withSession`, awaiting these waits for the run they start.
	fresh.sendMessage = async (message, options) => {
		sendMessage(message, options);
		await request("waitForIdle");
	};
	fresh.sendUserMessage = async (content, options) => {
		sendUserMessage(content, options);
		await request("waitForIdle");
	};
	await as(current, () => withSession(fresh));
	return result;
}

/** A session manager that records the entries a new session starts with. */
function recorder(manager, entries) {
	const note = (entry) => {
		entries.push(entry);
		return `setup-${entries.length}`;
	};
	return {
		...manager,
		appendMessage: (message) => note({ type: "message", message }),
		appendCustomEntry: (customType, data) => note({ type: "custom", customType, data }),
		appendCustomMessageEntry: (customType, content, display, details) =>
			note({ type: "custom_message", customType, content, display, details }),
		appendSessionInfo: (name) => note({ type: "session_info", name }),
	};
}
