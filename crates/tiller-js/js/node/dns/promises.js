// `dns/promises`.

import { isIP } from "node:net";

function unknown(name, call) {
	return Object.assign(new Error(`${call} ENOTFOUND ${name}`), { code: "ENOTFOUND", errno: -3008, syscall: call, hostname: name });
}

export async function lookup(name, options) {
	const family = isIP(name);
	const found = name === "localhost" ? { address: "127.0.0.1", family: 4 } : family ? { address: name, family } : undefined;
	if (!found) throw unknown(name, "getaddrinfo");
	return options?.all ? [found] : found;
}

export const resolve4 = async (name) => [(await lookup(name)).address];
export const resolve = resolve4;
export const resolve6 = async (name) => {
	throw unknown(name, "queryAaaa");
};
export const resolveTxt = async (name) => {
	throw unknown(name, "queryTxt");
};
export const reverse = async (name) => {
	throw unknown(name, "getHostByAddr");
};
