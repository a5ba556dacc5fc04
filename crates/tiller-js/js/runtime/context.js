// `ctx`: what a handler, a tool or a command sees of the session. Values are read when they are accessed.

import { act, hostInfo, query, request, runAs } from "tiller:host";
import { report } from "tiller:errors";
import { checkNotStale, extensions, sendMessage, sendUserMessage } from "tiller:extensions";
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
export function runSignal(signal) {
	if (signal === "began") run = new AbortController();
	else if (signal === "aborted") run?.abort();
	else run = undefined;
}

/** The contexts of an extension: for events and tools, for commands, and a small one. */
export function contextOf(extension) {
	extension.contexts ??= buildContexts(extension);
	return extension.contexts;
}

function buildContexts(extension) {
	const epoch = extension.epoch;
	const ui = uiOf(epoch);
	const manager = sessionManager(epoch);
	const registry = modelRegistry(epoch, extension);
	const shared = {
		get ui() {
			checkNotStale(epoch);
			return ui;
		},
		get mode() {
			checkNotStale(epoch);
			return hostInfo.mode;
		},
		get hasUI() {
			checkNotStale(epoch);
			return hostInfo.hasUI;
		},
		get cwd() {
			checkNotStale(epoch);
			return query("cwd");
		},
		get sessionManager() {
			checkNotStale(epoch);
			return manager;
		},
		get modelRegistry() {
			checkNotStale(epoch);
			return registry;
		},
		get model() {
			checkNotStale(epoch);
			return query("model") ?? undefined;
		},
		get scopedModels() {
			checkNotStale(epoch);
			return query("scopedModels");
		},
		get thinkingLevel() {
			checkNotStale(epoch);
			return query("thinkingLevel");
		},
		isIdle() {
			checkNotStale(epoch);
			return query("isIdle");
		},
		isProjectTrusted() {
			checkNotStale(epoch);
			return query("isProjectTrusted");
		},
		get signal() {
			checkNotStale(epoch);
			return run?.signal;
		},
		abort() {
			checkNotStale(epoch);
			act("abort");
		},
		hasPendingMessages() {
			checkNotStale(epoch);
			return query("hasPendingMessages");
		},
		shutdown() {
			checkNotStale(epoch);
			act("shutdown");
		},
		getContextUsage() {
			checkNotStale(epoch);
			return query("contextUsage") ?? undefined;
		},
		compact({ customInstructions, onComplete, onError } = {}) {
			checkNotStale(epoch);
			request("compact", { customInstructions })
				.then((result) => onComplete?.(result), (error) => onError?.(error))
				.catch((error) => report(extension.path, "compact", error));
		},
		getSystemPrompt() {
			checkNotStale(epoch);
			return live.systemPrompt?.() ?? query("systemPrompt");
		},
	};
	const inCommands = {
		getSystemPromptOptions() {
			checkNotStale(epoch);
			return query("systemPromptOptions");
		},
		async waitForIdle() {
			checkNotStale(epoch);
			await request("waitForIdle");
		},
		async newSession({ parentSession, setup, withSession } = {}) {
			checkNotStale(epoch);
			const entries = [];
			if (setup) await setup(recorder(manager, entries));
			return changed(extension, await request("newSession", { parentSession, entries }), withSession);
		},
		async fork(entryId, { position, withSession } = {}) {
			checkNotStale(epoch);
			return changed(extension, await request("fork", { entryId, position }), withSession);
		},
		async navigateTree(targetId, { summarize, customInstructions, replaceInstructions, label } = {}) {
			checkNotStale(epoch);
			const options = { summarize, customInstructions, replaceInstructions, label };
			return request("navigateTree", { targetId, options });
		},
		async switchSession(path, { withSession } = {}) {
			checkNotStale(epoch);
			return changed(extension, await request("switchSession", { path }), withSession);
		},
		async reload() {
			checkNotStale(epoch);
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
		mode: hostInfo.mode,
		hasUI: hostInfo.hasUI,
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
	await runAs(current, () => withSession(fresh));
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
