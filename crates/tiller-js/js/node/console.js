// `console`.

const { console } = globalThis;

export class Console {
	constructor() {
		Object.assign(this, console);
	}
}
export default Object.assign(console, { Console });
