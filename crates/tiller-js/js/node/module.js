// `module`: `createRequire` and the list of built-in modules.

import { createRequire } from "tiller:require";

const names = [
	"assert",
	"assert/strict",
	"async_hooks",
	"buffer",
	"child_process",
	"console",
	"constants",
	"crypto",
	"dgram",
	"diagnostics_channel",
	"dns",
	"dns/promises",
	"events",
	"fs",
	"fs/promises",
	"http",
	"http2",
	"https",
	"inspector",
	"module",
	"net",
	"os",
	"path",
	"path/posix",
	"path/win32",
	"perf_hooks",
	"process",
	"querystring",
	"readline",
	"readline/promises",
	"sqlite",
	"stream",
	"stream/consumers",
	"stream/promises",
	"stream/web",
	"string_decoder",
	"timers",
	"timers/promises",
	"tls",
	"tty",
	"url",
	"util",
	"util/types",
	"v8",
	"vm",
	"worker_threads",
	"zlib",
];

export { createRequire };
export const builtinModules = names;

export function isBuiltin(name) {
	return names.includes(String(name).replace(/^node:/, ""));
}

export function register() {}
export function registerHooks() {
	return { deregister() {} };
}
export function enableCompileCache() {}
export function findPackageJSON() {
	return undefined;
}
export function syncBuiltinESMExports() {}
export function stripTypeScriptTypes(code) {
	return code;
}

export class Module {
	static createRequire = createRequire;
	static builtinModules = names;
	static isBuiltin = isBuiltin;
	static _extensions = {};
	static _cache = {};
}

export default Object.assign(Module, { Module, register, registerHooks, enableCompileCache, findPackageJSON, syncBuiltinESMExports, stripTypeScriptTypes });
