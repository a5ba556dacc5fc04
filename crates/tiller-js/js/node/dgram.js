// `dgram`: not supported by this engine; opening a socket fails with a message that says so.

export function createSocket() {
	throw Object.assign(new Error("node:dgram cannot run inside tiller"), { code: "ERR_TILLER_UNSUPPORTED" });
}
export class Socket {
	constructor() {
		createSocket();
	}
}
