// The models of providers that extensions bring: as a sign-in changes them, and as the providers
// find them when they look.

import { as, facts, log, query, request } from "tiller:host";
import { describe, report } from "tiller:errors";
import { extensions, setModels } from "tiller:extensions";

/** What there is to say of a provider's models, and which of them are not to be had. */
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

/** Models of a provider given as an object with methods. */
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
		// Nobody is there who could know.
		return undefined;
	}
}

/** Every provider that can look for models, with its extension. */
function seekers(isWanted = () => true) {
	const found = [];
	for (const extension of extensions) {
		for (const [name, config] of extension.providers) {
			if (typeof config.refreshModels === "function" && isWanted(name)) found.push({ extension, name, config });
		}
	}
	return found;
}

/** Has those who can look for their models do so: first at what is stored, then, if that is wanted,
 * for what there is now. What went wrong is told by provider. */
export async function refreshAll({ providers, force, allowNetwork = true } = {}, signal) {
	const errors = {};
	for (const seeker of seekers((name) => providers?.includes(name) ?? true)) {
		try {
			await refresh(seeker, { allowNetwork: false, force, signal });
			if (allowNetwork && !isOffline()) await refresh(seeker, { allowNetwork: true, force, signal });
		} catch (error) {
			errors[seeker.name] = describe(error).message;
		}
	}
	return errors;
}

/** Extensions may act from now on. What their providers have stored is there when this is over, unless
 * that takes too long; what they find out there comes when it comes. */
export async function lookAround(isWanted) {
	const all = seekers(isWanted);
	if (all.length === 0) return;
	const { signal } = new AbortController();
	const look = async (seeker, allowNetwork) => {
		try {
			await refresh(seeker, { allowNetwork, signal });
		} catch (error) {
			log("warn", `Provider ${seeker.name}: cannot refresh its models: ${describe(error).message}`);
		}
	};
	const stored = Promise.all(all.map((seeker) => look(seeker, false)));
	let timer;
	await Promise.race([stored, new Promise((done) => (timer = setTimeout(done, facts.patienceMs)))]);
	clearTimeout(timer);
	if (!isOffline()) for (const seeker of all) void stored.then(() => look(seeker, true));
}

function isOffline() {
	return ["1", "true", "yes"].includes(String(facts.env.PI_OFFLINE).toLowerCase());
}

async function refresh({ extension, name, config }, { allowNetwork, force, signal }) {
	const its = extension.age;
	const isCurrent = () => !signal.aborted && !its.isStale && extension.providers.get(name) === config;
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
	const models = await as(extension, () => config.refreshModels(context));
	if (isCurrent()) setModels(extension, name, Array.isArray(models) ? models : undefined);
}

/** What the provider is asked with. A sign-in is renewed on the way. */
async function credentialOf(name, config, signal) {
	const resolve = config.auth?.apiKey?.resolve;
	if (typeof resolve === "function") {
		const { env } = globalThis.process;
		const ctx = { env: (name) => env[name], fileExists: () => false };
		const key = (await resolve.call(config.auth.apiKey, { ctx, signal }))?.auth?.apiKey;
		return key === undefined ? undefined : { type: "api_key", key };
	}
	// Without the permission to know keys there is none.
	const key = await request("apiKey", { provider: name }).catch(() => null);
	const stored = storedCredential(name);
	if (stored?.type === "oauth") return stored;
	return key === null ? undefined : { type: "api_key", key };
}
