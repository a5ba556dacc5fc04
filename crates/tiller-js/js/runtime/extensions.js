// The extensions of this engine, and the `pi` object of each.

import { act, native, query, request, runAs, stringify, sync } from "tiller:host";
import { describe, report } from "tiller:errors";
import { emitOn, listenOn } from "tiller:bus";
import { modelsOf, refreshStoredModels } from "tiller:model-refresh";

/** Sorted by number. */
export const extensions = [];

/** Flags from the command line. */
let flagValues = {};
/** The session epoch: every object handed out belongs to one, and is stale after the next session or reload. */
let currentEpoch = { isStale: false, isBound: false };
let isPublishing = false;
/** Whether a pending update contains more than a change of listeners. */
let isNoticeable = false;

const stale =
	"This extension ctx is stale after session replacement or reload. " +
	"Use the ctx given to withSession, or register again in the new session.";
const unbound = "Extension runtime not initialized. Action methods cannot be called during extension loading.";

/** Throws for objects of an earlier session. */
export function checkNotStale(epoch) {
	if (epoch.isStale) throw new Error(stale);
}

class Extension {
	constructor(number, path) {
		this.number = number;
		this.path = path;
		this.factory = undefined;
		this.reset();
	}
	reset() {
		this.epoch = currentEpoch;
		this.failure = undefined;
		this.handlers = new Map();
		this.tools = new Map();
		this.commands = new Map();
		this.flags = new Map();
		this.shortcuts = new Map();
		this.messageRenderers = new Map();
		this.entryRenderers = new Map();
		this.providers = new Map();
		this.subscriptions = new Set();
		this.isLoading = true;
		this.contexts = undefined;
	}
}

/** Loads a file. With `strictly`, importing what this engine lacks fails, so that a sidecar can be tried.
 * `isWanted` says whether the host still waits for it. */
export async function loadExtension(number, path, strictly = false, isWanted = () => true) {
	const extension = new Extension(number, path);
	native.extension(number);
	try {
		const id = native.entry(path, number, strictly);
		const module = await import(id);
		extension.factory = factoryIn(module);
	} catch (error) {
		throw failedLoad(error);
	}
	if (typeof extension.factory !== "function") {
		throw new Error(`Extension does not export a valid factory function: ${path}`);
	}
	try {
		await runFactory(extension);
	} catch (error) {
		throw failedLoad(error);
	}
	if (!isWanted()) return;
	const next = extensions.findIndex((other) => other.number > number);
	extensions.splice(next < 0 ? extensions.length : next, 0, extension);
	publish();
}

/** The default export, also if a compiler has wrapped it. */
function factoryIn(module) {
	let found = module.default;
	if (typeof found === "object" && found !== null && "default" in found) found = found.default;
	return found;
}

function failedLoad(error) {
	const { message, stack, lacks } = describe(error);
	return { message: `Failed to load extension: ${message}`, stack, lacks };
}

async function runFactory(extension) {
	try {
		await runAs(extension, () => extension.factory(apiOf(extension)));
		extension.isLoading = false;
	} catch (error) {
		extension.failure = `Extension "${extension.path}" failed to load and its API is no longer active.`;
		unsubscribe(extension);
		throw error;
	}
	for (const [name, config] of extension.providers) sendProvider(extension, name, config);
}

function unsubscribe(extension) {
	for (const drop of extension.subscriptions) drop();
	extension.subscriptions.clear();
}

/** Allows extensions to act. */
export function bind() {
	currentEpoch.isBound = true;
	for (const extension of extensions) {
		for (const [name, config] of extension.providers) sendProvider(extension, name, config);
	}
}

export function setFlags(values) {
	flagValues = values;
}

/** Starts over for another session: runs the factories again and makes earlier objects stale. */
export async function renew() {
	currentEpoch.isStale = true;
	currentEpoch = { isStale: false, isBound: false };
	const failed = [];
	for (const extension of extensions) {
		unsubscribe(extension);
		extension.reset();
		try {
			await runFactory(extension);
		} catch (error) {
			failed.push([extension.path, describe(error).message]);
			extension.handlers.clear();
		}
	}
	bind();
	publish();
	return failed;
}

/** Other engines replace this one. Running commands may go on in the current session, but handlers are no
 * longer called. */
export function retire() {
	currentEpoch.isStale = true;
	currentEpoch = { isStale: false, isBound: true };
	for (const extension of extensions) {
		unsubscribe(extension);
		extension.reset();
		extension.isLoading = false;
	}
	publish();
}

/** Sends the registrations to the host. Several changes are sent once. */
function publish(changed = false) {
	const registrations = extensions.map((extension) => ({
		number: extension.number,
		path: extension.path,
		handlers: [...extension.handlers].map(([name, list]) => [name, list.length]).filter(([, count]) => count > 0),
		messageRenderers: [...extension.messageRenderers.keys()],
		tools: [...extension.tools.values()].map(toolRegistration),
		commands: [...extension.commands].map(([name, { description }]) => ({ name, description })),
		flags: [...extension.flags].map(([name, flag]) => ({ name, ...flag })),
		shortcuts: [...extension.shortcuts].map(([key, { description }]) => ({ key, description })),
		providers: [...extension.providers].map(([name, config]) => listedProvider(name, config)),
	}));
	const listeners = new Set(registrations.flatMap((extension) => extension.handlers.map(([name]) => name)));
	sync("registered", { extensions: registrations, listeners: [...listeners], changed });
}

function publishSoon(noticeable = true) {
	isNoticeable ||= noticeable;
	if (isPublishing) return;
	isPublishing = true;
	queueMicrotask(publishNow);
}

/** Sends pending registrations before any other request or action. */
function publishNow() {
	if (!isPublishing) return;
	isPublishing = false;
	publish(isNoticeable);
	isNoticeable = false;
}

function toolRegistration(tool) {
	return {
		name: String(tool.name),
		label: tool.label === undefined ? undefined : String(tool.label),
		description: String(tool.description ?? ""),
		parameters: tool.parameters,
		promptSnippet: tool.promptSnippet?.replace(/\s+/g, " ").trim() || undefined,
		promptGuidelines: (tool.promptGuidelines ?? []).map(String),
		sequential: tool.executionMode === "sequential",
		prepares: typeof tool.prepareArguments === "function",
	};
}

/** The JSON part of a provider's configuration. An object with methods may have it on its prototype. */
function providerRegistration(name, config) {
	const { baseUrl, apiKey, api, headers, authHeader, compat, models, name: title } = config;
	return {
		name,
		config: { baseUrl, apiKey, api, headers, authHeader, compat, name: title, models },
		streams: typeof (config.streamSimple ?? config.stream) === "function",
		hasOauth: config.oauth !== undefined || config.auth?.oauth !== undefined,
	};
}

/** A provider that cannot be serialized is listed without its configuration; the error is reported when it is
 * registered. */
function listedProvider(name, config) {
	const registration = providerRegistration(name, config);
	try {
		stringify(registration);
	} catch {
		registration.config = {};
	}
	return registration;
}

function sendProvider(extension, name, config) {
	if (!extension.epoch.isBound) return;
	try {
		const { config: data, streams, hasOauth } = providerRegistration(name, config);
		const models = modelsOf(extension, name, config);
		act("registerProvider", { name, config: { ...data, ...models, streams, hasOauth, extensionPath: extension.path } });
	} catch (error) {
		report(extension.path, "register_provider", error);
	}
}

/** Replaces the models of a provider after a refresh. */
export function setModels(extension, name, models) {
	const config = extension.providers.get(name);
	if (models !== undefined) config.models = models;
	publishSoon();
	sendProvider(extension, name, config);
}


function apiOf(extension) {
	const epoch = extension.epoch;
	const check = () => {
		checkNotStale(epoch);
		if (extension.failure) throw new Error(extension.failure);
	};
	/** Wraps an action that needs a session. */
	const acting = (work) => (...args) => {
		check();
		if (!epoch.isBound) throw new Error(unbound);
		publishNow();
		return work(...args);
	};
	const registering = (work, noticeable = true) => (...args) => {
		check();
		const result = work(...args);
		if (!extension.isLoading) publishSoon(noticeable);
		return result;
	};
	const registerProvider = registering((name, config) => {
		if (typeof name === "object" && name !== null) [name, config] = [name.id, name];
		if (typeof config !== "object" || config === null) throw new Error(`Provider "${name}" has no configuration`);
		extension.providers.set(String(name), config);
		if (extension.isLoading) return;
		sendProvider(extension, String(name), config);
		if (epoch.isBound) void refreshStoredModels((other) => other === String(name));
	});
	const unregisterProvider = registering((name) => {
		extension.providers.delete(name);
		if (epoch.isBound) act("unregisterProvider", { name: String(name) });
	});
	Object.assign(extension, { registerProvider, unregisterProvider });
	return {
		on: registering((name, handle) => {
			if (!extension.handlers.has(name)) extension.handlers.set(name, []);
			// Copied on write, so that an event in progress keeps its list of handlers.
			extension.handlers.set(name, [...extension.handlers.get(name), handle]);
			return () => {
				const list = extension.handlers.get(name) ?? [];
				const index = list.indexOf(handle);
				if (index < 0) return;
				extension.handlers.set(name, list.toSpliced(index, 1));
				publishSoon(false);
			};
		}, false),
		registerTool: registering((tool) => {
			const schema = tool.parameters;
			if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
				throw new Error(
					`Tool "${tool.name}" registered by extension "${extension.path}" must define an object parameter schema.`,
				);
			}
			stringify(schema);
			extension.tools.set(String(tool.name), tool);
		}),
		registerCommand: registering((name, command) => {
			extension.commands.set(String(name), command);
		}),
		registerShortcut: registering((key, shortcut) => {
			extension.shortcuts.set(String(key).toLowerCase(), shortcut);
		}),
		registerFlag: registering((name, { description, type, default: value } = {}) => {
			if (value !== undefined && typeof value !== type) {
				throw new Error(`Invalid default for flag "${name}": expected ${type}, got ${typeof value}`);
			}
			extension.flags.set(String(name), { description, type: type === "string" ? "string" : "boolean", default: value });
		}),
		getFlag(name) {
			check();
			if (!extension.flags.has(name)) return undefined;
			if (!extension.isLoading && Object.hasOwn(flagValues, name)) return flagValues[name];
			return extension.flags.get(name).default;
		},
		registerMessageRenderer: registering((type, render) => {
			extension.messageRenderers.set(String(type), render);
		}),
		registerEntryRenderer: registering((type, render) => {
			extension.entryRenderers.set(String(type), render);
		}),
		registerMarkdownTransformer: registering(() => {}),
		registerToolRenderer: registering(() => {}),
		registerProvider,
		unregisterProvider,
		sendMessage: acting((message, options) => sendMessage(message, options)),
		sendUserMessage: acting((content, options) => sendUserMessage(content, options)),
		appendEntry: acting((customType, data) => act("appendEntry", { customType: String(customType), data })),
		setSessionName: acting((name) => act("setSessionName", { name: String(name) })),
		getSessionName: acting(() => query("session", { read: "name" }) ?? undefined),
		setLabel: acting((entryId, label) => {
			if (!query("session", { read: "entry", id: String(entryId) })) throw new Error(`Entry ${entryId} not found`);
			act("setLabel", { entryId: String(entryId), label });
		}),
		async exec(command, args, options) {
			check();
			const { exec } = await import("tiller:exec");
			return exec(command, args, options);
		},
		getActiveTools: acting(() => query("activeTools")),
		getAllTools: acting(() => query("allTools")),
		setActiveTools: acting((names) => act("setActiveTools", { names: [...names].map(String) })),
		getCommands: acting(() => query("commands")),
		async setModel(model) {
			check();
			if (!epoch.isBound) throw new Error("Extension runtime not initialized");
			return request("setModel", { model });
		},
		getThinkingLevel: acting(() => query("thinkingLevel")),
		setThinkingLevel: acting((level) => act("setThinkingLevel", { level: String(level) })),
		events: {
			emit(channel, data) {
				check();
				emitOn(String(channel), data);
			},
			on(channel, handle) {
				check();
				return listenOn(extension, String(channel), handle);
			},
		},
		getSettings: () => ({}),
		getMcpServers: () => [],
		registerMcpServer() {},
		unregisterMcpServer() {},
		registerVirtualModel() {},
		unregisterVirtualModel() {},
	};
}

export function sendMessage({ customType, content, display, details }, { triggerTurn, deliverAs } = {}) {
	const message = { customType: String(customType), content: content ?? [], display: display ?? true, details };
	act("sendMessage", { message, triggerTurn, deliverAs });
}

export function sendUserMessage(content, { deliverAs, expandPromptTemplates } = {}) {
	act("sendUserMessage", { content, deliverAs, expandPromptTemplates: expandPromptTemplates === true });
}
