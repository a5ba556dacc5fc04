// `ctx.modelRegistry`: models, their credentials, and requests to them.

import { hostInfo, query, request } from "tiller:host";
import { complete, stream, streamSimple } from "tiller:completion";
import { checkNotStale } from "tiller:extensions";

export function modelRegistry(epoch, extension) {
	const read = (what, more) => {
		checkNotStale(epoch);
		return query("models", { read: what, ...more }) ?? undefined;
	};
	const ask = async (type, more) => {
		checkNotStale(epoch);
		return (await request(type, more)) ?? undefined;
	};
	const whileAlive = (work) => (model, context, options) => {
		checkNotStale(epoch);
		return work(model, context, options);
	};
	return {
		getAll: () => read("all") ?? [],
		getAvailable: () => read("available") ?? [],
		find: (provider, id) => read("find", { provider, id }),
		hasConfiguredAuth: (model) => read("hasAuth", { provider: model?.provider ?? String(model) }) === true,
		isUsingOAuth: (model) => read("isUsingOauth", { provider: model?.provider }) === true,
		getProviderDisplayName: (provider) => read("providerName", { provider }) ?? provider,
		getProviderAuthStatus: (provider) => read("authStatus", { provider }),
		getError: () => read("error"),
		getApiKeyAndHeaders: (model) => ask("apiKeyAndHeaders", { model }),
		getApiKey: async (model) => {
			const access = await ask("apiKeyAndHeaders", { model });
			return access?.ok ? access.apiKey : undefined;
		},
		getApiKeyForProvider: (provider) => ask("apiKey", { provider }),
		async getProviderAuth(provider) {
			const apiKey = await ask("apiKey", { provider });
			if (apiKey === undefined) return undefined;
			return { auth: { apiKey }, source: read("authStatus", { provider })?.label };
		},
		async refresh({ providers, force, allowNetwork, signal } = {}) {
			const refreshed = ask("refreshModels", { options: { providers, force, allowNetwork } });
			const gaveUp = new Promise((done) => {
				const stop = () => done({ aborted: true, errors: {} });
				if (signal?.aborted) stop();
				signal?.addEventListener("abort", stop, { once: true });
			});
			const { aborted, errors } = await Promise.race([gaveUp, refreshed]);
			return { aborted, errors: new Map(Object.entries(errors).map(([name, why]) => [name, new Error(why)])) };
		},
		stream: whileAlive(stream),
		streamSimple: whileAlive(streamSimple),
		complete: whileAlive(complete),
		completeSimple: whileAlive(complete),
		registerProvider: (name, config) => extension.registerProvider(name, config),
		unregisterProvider: (name) => extension.unregisterProvider(name),
		getProvider: (id) => extension.providers.get(id),
		getRegisteredProviderConfig: (id) => extension.providers.get(id),
		getRegisteredNativeProvider: () => undefined,
		getRegisteredProviderIds: () => [...extension.providers.keys()],
		authStorage: {
			get: () => undefined,
			hasAuth: (provider) => read("hasAuth", { provider }) === true,
			getApiKey: (provider) => ask("apiKey", { provider }),
			agentDir: hostInfo.agentDir,
		},
	};
}
