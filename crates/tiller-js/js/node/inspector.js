// `inspector`: stubs.

export const url = () => undefined;
export const open = () => {};
export const close = () => {};
export class Session {
	connect() {}
	disconnect() {}
	post() {}
	on() {}
}
