// `dns`: the host resolves names when it connects; only literal addresses and localhost resolve here.

import * as promised from "node:dns/promises";

export { promised as promises };

function byCallback(name) {
	return (host, ...args) => {
		const callback = args.pop();
		promised[name](host, ...args).then(
			(value) => (name === "lookup" && value.address ? callback(null, value.address, value.family) : callback(null, value)),
			(error) => callback(error),
		);
	};
}

export const lookup = byCallback("lookup");
export const resolve = byCallback("resolve");
export const resolve4 = byCallback("resolve4");
export const resolve6 = byCallback("resolve6");
export const resolveTxt = byCallback("resolveTxt");
export const reverse = byCallback("reverse");
export const setServers = () => {};
export const getServers = () => [];
export const setDefaultResultOrder = () => {};
