// `ctx.sessionManager`: reads of the session, and pi's append methods.

import { act, query } from "tiller:host";
import { checkNotStale } from "tiller:extensions";

export function sessionManager(epoch) {
	const read = (what, more) => {
		checkNotStale(epoch);
		return query("session", { read: what, ...more }) ?? undefined;
	};
	const append = (type, more) => {
		checkNotStale(epoch);
		act(type, more);
		return read("leafId");
	};
	return {
		getCwd: () => read("cwd"),
		getSessionDir: () => read("dir"),
		getSessionId: () => read("id"),
		getSessionFile: () => read("file"),
		isPersisted: () => read("file") !== undefined,
		getLeafId: () => read("leafId") ?? null,
		getLeafEntry() {
			const id = read("leafId");
			return id === undefined ? undefined : read("entry", { id });
		},
		getEntry: (id) => read("entry", { id }),
		getLabel: (id) => read("label", { id }),
		getBranch: (from) => read("branch", { from }) ?? [],
		getEntries: () => read("entries") ?? [],
		getChildren: (id) => (read("entries") ?? []).filter((entry) => entry.parentId === id),
		getTree: () => read("tree") ?? [],
		getHeader: () => read("header") ?? null,
		getSessionName: () => read("name"),
		buildContextEntries: () => read("contextEntries") ?? [],
		buildSessionProjection: () => read("projection"),
		buildSessionContext: () => read("projection"),
		appendMessage: (message) => append("appendMessage", { message }),
		appendCustomEntry: (customType, data) => append("appendEntry", { customType, data }),
		appendLabelChange: (entryId, label) => append("setLabel", { entryId, label }),
		appendSessionInfo: (name) => append("setSessionName", { name }),
	};
}
