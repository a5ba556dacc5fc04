// `sqlite`: not in this engine, which is told when somebody opens a database.

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
