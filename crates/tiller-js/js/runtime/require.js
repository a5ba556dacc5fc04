// CommonJS: `require`, and scripts as function bodies.

import { native, parse } from "tiller:host";

const cache = new Map();

/** Runs a script once and returns its exports. Facades of scripts import this. */
export function runScript(id) {
	return cache.get(id)?.exports ?? run(native.script(id));
}

function run(found) {
	const known = cache.get(found.id);
	if (known) return known.exports;
	if (found.kind === "json") {
		const module = { id: found.id, exports: parse(found.text), loaded: true };
		cache.set(found.id, module);
		return module.exports;
	}
	const slash = found.path.lastIndexOf("/");
	const module = {
		id: found.path,
		filename: found.path,
		path: found.path.slice(0, slash),
		exports: {},
		loaded: false,
		children: [],
		paths: [],
		parent: null,
	};
	cache.set(found.id, module);
	try {
		const body = native.compile(found.id);
		const require = requireFrom(found.id, found.path);
		module.require = require;
		body.call(module.exports, module.exports, require, module, found.path, module.path);
	} catch (error) {
		cache.delete(found.id);
		throw error;
	}
	module.loaded = true;
	return module.exports;
}

/** The `require` of the module with this id. */
export function requireFrom(id, path) {
	const require = (name) => {
		if (typeof name !== "string") {
			const error = new TypeError('The "id" argument must be of type string');
			error.code = "ERR_INVALID_ARG_TYPE";
			throw error;
		}
		const found = native.require(id, name);
		if (found.kind !== "module") return run(found);
		const known = cache.get(found.id);
		if (known) return known.exports;
		const all = native.importNow(found.id);
		const isOurs = !found.id.startsWith("/");
		const exports = isOurs ? (all.default ?? { ...all }) : interop(all);
		cache.set(found.id, { id: found.id, exports, loaded: true });
		return exports;
	};
	require.resolve = (name) => native.find(id, name);
	require.resolve.paths = () => [];
	require.cache = Object.create(null);
	require.main = undefined;
	require.extensions = Object.create(null);
	return require;
}

/** What `require` returns for a module: node's rules for a `module.exports` export. */
function interop(all) {
	return "module.exports" in all ? all["module.exports"] : all;
}

/** `require`, `__filename` and `__dirname` for a module that uses them. */
export function scopeOf(meta) {
	return {
		require: requireFrom(meta.__id, meta.filename),
		__filename: meta.filename,
		__dirname: meta.dirname,
	};
}

/** `createRequire` of `node:module`. */
export function createRequire(from) {
	let path = String(from);
	if (path.startsWith("file:")) path = decodeURIComponent(path.replace(/^file:\/\//, ""));
	return requireFrom(`${path}?${native.extension()}`, path);
}
