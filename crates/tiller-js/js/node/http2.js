// `http2`: not in this engine, which is told when somebody connects.

export function connect() {
	throw Object.assign(new Error("node:http2 cannot run inside tiller; use fetch"), { code: "ERR_TILLER_UNSUPPORTED" });
}
export const createServer = connect;
export const createSecureServer = connect;
export const constants = {};
