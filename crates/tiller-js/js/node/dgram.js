// `dgram`: not in this engine, which is told when somebody opens a socket.

export function createSocket() {
	throw Object.assign(new Error("node:dgram cannot run inside tiller"), { code: "ERR_TILLER_UNSUPPORTED" });
}
export class Socket {
	constructor() {
		createSocket();
	}
}
