// The first script that node or bun runs: the line to tiller, and the loader for modules that come over it.
// It is a script, because no module can be loaded before it has run.

const fs = require("node:fs");
const nodeModule = require("node:module");
const { fileURLToPath, pathToFileURL } = require("node:url");

const [lineFile, newsFile] = process.argv.splice(1, 2).map(Number);
const end = process.reallyExit?.bind(process) ?? process.exit.bind(process);

/** Sends a record that needs no answer. */
function say(record) {
	const bytes = Buffer.from(`${JSON.stringify(record)}\n`);
	try {
		for (let at = 0; at < bytes.length; ) at += fs.writeSync(lineFile, bytes, at);
	} catch {
		end(0);
	}
}

const room = Buffer.alloc(64 * 1024);

/** Sends a record and blocks until it is answered. */
function ask(record) {
	say(record);
	const pieces = [];
	for (;;) {
		const count = fs.readSync(lineFile, room, 0, room.length, null);
		// tiller is gone.
		if (count === 0) end(0);
		pieces.push(Buffer.from(room.subarray(0, count)));
		if (room[count - 1] === 10) break;
	}
	return read(JSON.parse(Buffer.concat(pieces).toString()));
}

/** Returns tiller's answer, or throws its error. */
function read(given) {
	if (given === "nothing") return undefined;
	if (given.text !== undefined) return given.text;
	if (given.json !== undefined) return JSON.parse(given.json);
	if (given.bytes !== undefined) return new Uint8Array(Buffer.from(given.bytes, "base64"));
	if (given.module !== undefined) return given.module;
	const { message, name, fields } = given.failed;
	const error = Object.assign(new Error(message), fields);
	if (name) error.name = name;
	throw error;
}

const ours = /^(?:tiller|pi|facade|sidecar):/;
const packages = /^@(?:earendil-works|mariozechner)\/pi-|^(?:@sinclair\/)?typebox(?:\/|$)/;
const typed = /\.[cm]?tsx?$/;
/** Built-in modules that are replaced in a sidecar. */
const instead = { "tiller:globals": "sidecar:globals", "tiller:timers": "sidecar:timers", "tiller:require": "sidecar:require" };

/** A module's id is a path with the number of its extension, or the id of a built-in module. */
function idOf(url) {
	if (!url.startsWith("file:")) return url;
	const mark = url.search(/[?#]/);
	return mark < 0 ? fileURLToPath(url) : fileURLToPath(url.slice(0, mark)) + url.slice(mark);
}

function urlOf(id) {
	if (!id.startsWith("/")) return instead[id] ?? id;
	const [, path, number] = /^(.*?)(\?\d+)?$/s.exec(id);
	return pathToFileURL(path).href + (number ?? "");
}

function resolve(name, context, next) {
	if (nodeModule.isBuiltin(name) || /^(?:data|blob|https?):/.test(name)) return next(name, context);
	const from = context.parentURL ?? "";
	// tiller decides the kind of a module; import attributes are ignored.
	const found = (id) => ({ url: urlOf(id), importAttributes: {}, shortCircuit: true });
	if (ours.test(name)) return found(name);
	const isImport = context.conditions?.includes("import");
	if (packages.test(name) || (isImport && (ours.test(from) || from.startsWith("file:")))) {
		const id = ask({ type: "resolve", importer: idOf(from), name });
		return id.startsWith("node:") ? next(id, context) : found(id);
	}
	try {
		return next(name, context);
	} catch (error) {
		if (error?.code !== "MODULE_NOT_FOUND" || !from.startsWith("file:")) throw error;
		return found(ask({ type: "locate", importer: idOf(from), name }));
	}
}

function load(url, context, next) {
	const isFile = url.startsWith("file:");
	const path = isFile ? idOf(url).replace(/\?\d+$/, "") : "";
	// Node loads required scripts itself, unless they contain types.
	if (!ours.test(url) && !(isFile && (/\?\d+$/.test(url) || typed.test(path)))) return next(url, context);
	const { source, isScript } = ask({ type: "load", id: isFile ? idOf(url) : url });
	return { format: isScript ? "commonjs" : "module", source, shortCircuit: true };
}

function unfit(why) {
	say({ type: "unfit", why });
	end(0);
}

/** Bun reads TypeScript and resolves modules itself; only tiller's modules are passed to it. */
function plugIn(build) {
	const found = (id) => {
		const url = urlOf(id);
		const colon = url.indexOf(":");
		return { namespace: url.slice(0, colon), path: url.slice(colon + 1) };
	};
	for (const [name, id] of ask({ type: "packages" })) {
		const all = JSON.stringify(id);
		build.module(name, () => ({ contents: `export * from ${all};export { default } from ${all};`, loader: "js" }));
	}
	build.onResolve({ filter: ours }, ({ path }) => found(path));
	for (const namespace of ["tiller", "pi", "facade", "sidecar"]) {
		build.onResolve({ filter: ours, namespace }, ({ path }) => found(path));
		build.onLoad({ filter: /./, namespace }, ({ path }) => {
			const id = instead[`${namespace}:${path}`] ?? `${namespace}:${path}`;
			return { contents: ask({ type: "load", id }).source, loader: "js" };
		});
	}
}

const isBun = globalThis.Bun !== undefined;
if (!isBun && !nodeModule.registerHooks) unfit(`version ${process.version} is too old, 22.15 or later is needed`);
say({ type: "hello" });
if (isBun) globalThis.Bun.plugin({ name: "tiller", setup: plugIn });
else nodeModule.registerHooks({ resolve, load });
Object.defineProperty(globalThis, "__tillerLine", { value: { say, ask, read, end, newsFile }, configurable: true });
import("sidecar:main").catch((error) => {
	fs.writeSync(2, `${error?.stack ?? error}\n`);
	end(1);
});
