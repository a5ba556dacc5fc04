// `tls`: TLS is available through `fetch` and `https`, not for sockets.

function refuse() {
	throw Object.assign(new Error("node:tls sockets are not supported inside tiller; use fetch or node:https"), { code: "ERR_TILLER_UNSUPPORTED" });
}

export const connect = refuse;
export const createServer = refuse;
export const createSecureContext = () => ({});
export const checkServerIdentity = () => undefined;
export const rootCertificates = [];
export class TLSSocket {
	constructor() {
		refuse();
	}
}
