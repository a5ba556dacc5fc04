// `http2`: not supported by this engine; connecting fails with a message that says so.

export function connect() {
	throw Object.assign(new Error("node:http2 cannot run inside tiller; use fetch"), { code: "ERR_TILLER_UNSUPPORTED" });
}
export const createServer = connect;
export const createSecureServer = connect;
export const constants = {};
