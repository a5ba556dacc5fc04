// `ctx.ui`. Dialogs go to the client and wait for its answer; notices do not wait; terminal features do
// nothing, as in pi over RPC.

import { begin, hostInfo, sync } from "tiller:host";
import { checkNotStale } from "tiller:extensions";
import { theme } from "tiller:theme";

function nothing() {}

function text(value) {
	return value === undefined || value === null ? undefined : String(value);
}

/** Called when a dialog opens and closes. */
export const watchers = { notify() {} };
let open = 0;

/** Announces the outermost dialog in a separate job, without waiting for the handlers. */
function announce(type, { method, title }) {
	queueMicrotask(() => watchers.notify({ type, reason: "ui_prompt", kind: method, title }));
}

/** Opens a dialog, if there is a client, and returns `otherwise` if there is no answer. */
async function dialog(question, options, otherwise) {
	if (!hostInfo.hasUI || options?.signal?.aborted) return otherwise;
	if (open++ === 0) announce("ui_prompt_start", question);
	try {
		return await asked(question, options ?? {}, otherwise);
	} finally {
		if (--open === 0) announce("ui_prompt_end", question);
	}
}

function asked(question, { signal, timeout }, otherwise) {
	const ms = typeof timeout === "number" && timeout > 0 ? Math.round(timeout) : undefined;
	const { promise, cancel } = begin("dialog", { ...question, timeout: ms });
	return new Promise((resolve) => {
		const abort = () => {
			cancel();
			resolve(otherwise);
		};
		signal?.addEventListener("abort", abort, { once: true });
		promise
			.then((answer) => resolve(answer ?? otherwise), () => resolve(otherwise))
			.finally(() => signal?.removeEventListener("abort", abort));
	});
}

function notice(method, more) {
	if (hostInfo.hasUI) sync("notice", { method, ...more });
}

export function uiOf(epoch) {
	const whileAlive = (work) => (...args) => {
		checkNotStale(epoch);
		return work(...args);
	};
	const setEditorText = whileAlive((value) => notice("set_editor_text", { text: String(value ?? "") }));
	const no = whileAlive(nothing);
	return {
		select: whileAlive((title, options, more) =>
			dialog({ method: "select", title: String(title), options: [...options].map(String) }, more),
		),
		confirm: whileAlive((title, message, more) =>
			dialog({ method: "confirm", title: String(title), message: String(message ?? "") }, more, false),
		),
		input: whileAlive((title, placeholder, more) =>
			dialog({ method: "input", title: String(title), placeholder: text(placeholder) }, more),
		),
		editor: whileAlive((title, prefill) => dialog({ method: "editor", title: String(title), prefill: text(prefill) })),
		notify: whileAlive((message, type) => notice("notify", { message: String(message), notifyType: text(type) })),
		setStatus: whileAlive((key, value) => notice("setStatus", { statusKey: String(key), statusText: text(value) })),
		setWidget: whileAlive((key, lines, { placement } = {}) => {
			if (lines !== undefined && !Array.isArray(lines)) return;
			notice("setWidget", {
				widgetKey: String(key),
				widgetLines: lines?.map(String),
				widgetPlacement: text(placement),
			});
		}),
		setTitle: whileAlive((title) => notice("setTitle", { title: String(title) })),
		setEditorText,
		pasteToEditor: setEditorText,
		getEditorText: whileAlive(() => ""),
		custom: whileAlive(async () => undefined),
		onTerminalInput: whileAlive(() => nothing),
		setWorkingMessage: no,
		setWorkingVisible: no,
		setWorkingIndicator: no,
		setHiddenThinkingLabel: no,
		setFooter: no,
		setHeader: no,
		addAutocompleteProvider: no,
		setEditorComponent: no,
		getEditorComponent: no,
		setToolsExpanded: no,
		getToolsExpanded: whileAlive(() => false),
		get theme() {
			checkNotStale(epoch);
			return theme;
		},
		getAllThemes: whileAlive(() => []),
		getTheme: no,
		setTheme: whileAlive(() => ({
			success: false,
			error: hostInfo.hasUI ? "Theme switching not supported in RPC mode" : "UI not available",
		})),
	};
}
