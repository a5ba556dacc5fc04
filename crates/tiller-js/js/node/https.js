// `https`: like `http`, over TLS.

import { Agent, globalAgent, request as plain } from "tiller:http-client";

export { Agent, globalAgent };

export function request(...args) {
	return plain.call({ protocol: "https:" }, ...args);
}

export function get(...args) {
	const sent = request(...args);
	sent.end();
	return sent;
}

export function createServer() {
	throw Object.assign(new Error("https servers are not supported inside tiller"), { code: "ERR_TILLER_UNSUPPORTED" });
}
export class Server {
	constructor() {
		createServer();
	}
}
