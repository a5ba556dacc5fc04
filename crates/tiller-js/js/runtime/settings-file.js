// Settings from their files, for extensions that read them.

import { hostInfo, native, query } from "tiller:host";

function read(path) {
	try {
		return JSON.parse(native.importNow("node:fs").readFileSync(path, "utf8"));
	} catch {
		// A missing or broken file counts as empty; tiller itself has reported it.
		return {};
	}
}

const isPlain = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Project settings override the user's. */
function merged(user, project) {
	const both = { ...user };
	for (const [name, value] of Object.entries(project)) {
		both[name] = isPlain(value) && isPlain(both[name]) ? merged(both[name], value) : value;
	}
	return both;
}

/** `getSomething()` returns the setting `something`. Extensions cannot write settings. */
export class SettingsManager {
	#places;
	#user = {};
	#project = {};
	#overrides = {};

	constructor(places, user = {}) {
		this.#places = places;
		this.#user = user;
		this.#read();
		return new Proxy(this, {
			get(own, name) {
				if (name in own) return typeof own[name] === "function" ? own[name].bind(own) : own[name];
				const [, verb, rest] = /^(get|set)([A-Z].*)$/.exec(String(name)) ?? [];
				if (verb === "get") return () => own.get(rest[0].toLowerCase() + rest.slice(1));
				if (verb === "set") {
					return () => {
						throw new Error(`SettingsManager.${String(name)}: extensions do not write settings in tiller`);
					};
				}
				return undefined;
			},
		});
	}
	static create(cwd = query("cwd"), agentDir = hostInfo.agentDir, { projectTrusted = query("isProjectTrusted") } = {}) {
		const project = projectTrusted ? `${cwd}/.pi/settings.json` : undefined;
		return new SettingsManager({ user: `${agentDir}/settings.json`, project });
	}
	static inMemory(settings = {}) {
		return new SettingsManager(undefined, structuredClone(settings));
	}
	#read() {
		if (!this.#places) return;
		this.#user = read(this.#places.user);
		this.#project = this.#places.project ? read(this.#places.project) : {};
	}
	get(name) {
		return merged(merged(this.#user, this.#project), this.#overrides)[name];
	}
	getGlobalSettings() {
		return structuredClone(this.#user);
	}
	getProjectSettings() {
		return structuredClone(this.#project);
	}
	/** Applies to this object only. */
	applyOverrides(more) {
		this.#overrides = merged(this.#overrides, more);
	}
	async reload() {
		this.#read();
	}
	async flush() {}
	drainErrors() {
		return [];
	}
}
