// Settings from their files, for extensions that read them.

import { hostInfo, query, sync } from "tiller:host";

/** `getSomething()` returns the setting `something`. Extensions cannot write settings. */
export class SettingsManager {
	/** The user's and the project's settings, as `{ file }` or `{ values }`. */
	#sources;
	/** The values of each source. */
	#layers;
	#overrides = [];
	#merged;

	constructor(user, project = { values: {} }) {
		this.#sources = [user, project];
		this.#load(this.#sources);
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
		const project = projectTrusted ? { file: `${cwd}/.pi/settings.json` } : undefined;
		return new SettingsManager({ file: `${agentDir}/settings.json` }, project);
	}
	static inMemory(settings = {}) {
		return new SettingsManager({ values: structuredClone(settings) });
	}
	#load(sources) {
		const overrides = this.#overrides.map((values) => ({ values }));
		const { layers, merged } = sync("settings", [...sources, ...overrides]);
		this.#layers = layers;
		this.#merged = merged;
	}
	get(name) {
		return structuredClone(this.#merged[name]);
	}
	getGlobalSettings() {
		return structuredClone(this.#layers[0]);
	}
	getProjectSettings() {
		return structuredClone(this.#layers[1]);
	}
	/** Applies to this object only. */
	applyOverrides(more) {
		this.#overrides.push(more);
		this.#load(this.#layers.slice(0, 2).map((values) => ({ values })));
	}
	async reload() {
		this.#load(this.#sources);
	}
	async flush() {}
	drainErrors() {
		return [];
	}
}
