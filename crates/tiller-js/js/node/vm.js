// `vm`: runs code in the same realm, because there is no other.

export function runInThisContext(code) {
	return (0, eval)(String(code));
}
export const runInNewContext = (code, sandbox = {}) => new Function(...Object.keys(sandbox), `return eval(${JSON.stringify(String(code))})`)(...Object.values(sandbox));
export const runInContext = runInNewContext;
export const createContext = (sandbox = {}) => sandbox;
export const isContext = () => false;
export class Script {
	constructor(code) {
		this.code = code;
	}
	runInThisContext() {
		return runInThisContext(this.code);
	}
	runInNewContext(sandbox) {
		return runInNewContext(this.code, sandbox);
	}
	runInContext(sandbox) {
		return runInNewContext(this.code, sandbox);
	}
}
export const compileFunction = (code, params = []) => new Function(...params, code);
