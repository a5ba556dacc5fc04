// `sqlite`: not supported by this engine; opening a database fails with a message that says so.

function refuse() {
	throw Object.assign(new Error("node:sqlite cannot run inside tiller"), { code: "ERR_TILLER_UNSUPPORTED" });
}

export class DatabaseSync {
	constructor() {
		refuse();
	}
}
export class StatementSync {
	constructor() {
		refuse();
	}
}
export const backup = refuse;
export const constants = {};
