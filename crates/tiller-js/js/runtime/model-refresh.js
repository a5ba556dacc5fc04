// Models of providers that extensions registered: changed by a login's `modifyModels`, and refreshed by
// `refreshModels`.

import { hostInfo, log, query, request, runAs } from "tiller:host";
import { describe, report } from "tiller:errors";
import { extensions, setModels } from "tiller:extensions";

/** The models to register for a provider, and those to remove. */
export function modelsOf(extension, name, config) {
	const models = config.models ?? ownModels(config);
	const oauth = config.oauth ?? config.auth?.oauth;
	const changes = typeof oauth?.modifyModels === "function";
	const filters = typeof config.filterModels === "function";
	if (!Array.isArray(models) || (!changes && !filters)) return { models };
	const credential = storedCredential(name);
	let all = models.map((model) => ({ provider: name, api: config.api, baseUrl: config.baseUrl, ...model }));
	let available = all;
	try {
		if (changes && credential?.type === "oauth") all = oauth.modifyModels(all, credential);
		available = filters ? config.filterModels(all, credential) : all;
	} catch (error) {
		report(extension.path, "register_provider", error);
		return { models };
	}
	const isAvailable = (model) => available.some((other) => other.id === model.id);
	return { models: all, unavailable: all.filter((model) => !isAvailable(model)).map((model) => String(model.id)) };
}

/** Models of a provider that is an object with methods. */
function ownModels(config) {
	if (typeof config.getModels !== "function") return undefined;
	try {
		return [...config.getModels()];
	} catch {
		return undefined;
	}
}

function storedCredential(provider) {
	try {
		return query("models", { read: "credential", provider }) ?? undefined;
	} catch {
		// The host refuses or cannot answer.
		return undefined;
	}
}

/** Every provider with a `refreshModels`, with its extension. */
function refreshableProviders(isWanted = () => true) {
	const found = [];
	for (const extension of extensions) {
		for (const [name, config] of extension.providers) {
			if (typeof config.refreshModels === "function" && isWanted(name)) found.push({ extension, name, config });
		}
	}
	return found;
}

/** Refreshes models: first from the store, then, if allowed, from the network. Returns errors by provider. */
export async function refreshAll({ providers, force, allowNetwork = true } = {}, signal) {
	const errors = {};
	for (const provider of refreshableProviders((name) => providers?.includes(name) ?? true)) {
		try {
			await refresh(provider, { allowNetwork: false, force, signal });
			if (allowNetwork && !isOffline()) await refresh(provider, { allowNetwork: true, force, signal });
		} catch (error) {
			errors[provider.name] = describe(error).message;
		}
	}
	return errors;
}

/** Called when extensions may act. Returns when the providers' stored models are registered, or after a time
 * limit; models from the network follow later. */
export async function refreshStoredModels(isWanted) {
	const all = refreshableProviders(isWanted);
	if (all.length === 0) return;
	const { signal } = new AbortController();
	const tryRefresh = async (provider, allowNetwork) => {
		try {
			await refresh(provider, { allowNetwork, signal });
		} catch (error) {
			log("warn", `Provider ${provider.name}: cannot refresh its models: ${describe(error).message}`);
		}
	};
	const stored = Promise.all(all.map((provider) => tryRefresh(provider, false)));
	let timer;
	await Promise.race([stored, new Promise((done) => (timer = setTimeout(done, hostInfo.eventWaitMs)))]);
	clearTimeout(timer);
	if (!isOffline()) for (const provider of all) void stored.then(() => tryRefresh(provider, true));
}

function isOffline() {
	return ["1", "true", "yes"].includes(String(hostInfo.env.PI_OFFLINE).toLowerCase());
}

async function refresh({ extension, name, config }, { allowNetwork, force, signal }) {
	const epoch = extension.epoch;
	const isCurrent = () => !signal.aborted && !epoch.isStale && extension.providers.get(name) === config;
	const context = {
		credential: allowNetwork ? await credentialOf(name, config, signal) : undefined,
		stored: (await request("storedModels", { provider: name })) ?? undefined,
		async publish({ persist, update } = {}) {
			if (!isCurrent()) return false;
			if (persist !== undefined) await request("storeModels", { provider: name, entry: persist });
			if (!isCurrent()) return false;
			update?.();
			if (update) setModels(extension, name);
			return true;
		},
		allowNetwork,
		force,
		signal,
	};
	if (!isCurrent()) return;
	const models = await runAs(extension, () => config.refreshModels(context));
	if (isCurrent()) setModels(extension, name, Array.isArray(models) ? models : undefined);
}

/** The credential for a refresh. An expired one is renewed. */
async function credentialOf(name, config, signal) {
	const resolve = config.auth?.apiKey?.resolve;
	if (typeof resolve === "function") {
		const { env } = globalThis.process;
		const ctx = { env: (name) => env[name], fileExists: () => false };
		const key = (await resolve.call(config.auth.apiKey, { ctx, signal }))?.auth?.apiKey;
		return key === undefined ? undefined : { type: "api_key", key };
	}
	// An extension without the `env` permission gets no key.
	const key = await request("apiKey", { provider: name }).catch(() => null);
	const stored = storedCredential(name);
	if (stored?.type === "oauth") return stored;
	return key === null ? undefined : { type: "api_key", key };
}
