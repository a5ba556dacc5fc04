// The first script that node or bun runs: the socket for requests to tiller, and the loader for modules that come over it.
// It is a script, because no module can be loaded before it has run.

const fs = require("node:fs");
const nodeModule = require("node:module");
const { fileURLToPath, pathToFileURL } = require("node:url");

const [requestFile, messageFile] = process.argv.splice(1, 2).map(Number);
const end = process.reallyExit?.bind(process) ?? process.exit.bind(process);

/** Sends a record that needs no answer. */
function send(record) {
	const bytes = Buffer.from(`${JSON.stringify(record)}\n`);
	try {
		for (let at = 0; at < bytes.length; ) at += fs.writeSync(requestFile, bytes, at);
	} catch {
		end(0);
	}
}

const chunk = Buffer.alloc(64 * 1024);

/** Sends a record and blocks until it is answered. */
function request(record) {
	send(record);
	const pieces = [];
	for (;;) {
		const count = fs.readSync(requestFile, chunk, 0, chunk.length, null);
		// tiller is gone.
		if (count === 0) end(0);
		pieces.push(Buffer.from(chunk.subarray(0, count)));
		if (chunk[count - 1] === 10) break;
	}
	return read(JSON.parse(Buffer.concat(pieces).toString()));
}

/** Returns tiller's answer, or throws its error. */
function read(answer) {
	if (answer === "nothing") return undefined;
	if (answer.text !== undefined) return answer.text;
	if (answer.json !== undefined) return JSON.parse(answer.json);
	if (answer.bytes !== undefined) return new Uint8Array(Buffer.from(answer.bytes, "base64"));
	if (answer.module !== undefined) return answer.module;
	const { message, name, fields } = answer.failed;
	const error = Object.assign(new Error(message), fields);
	if (name) error.name = name;
	throw error;
}

const ours = /^(?:tiller|pi|facade|sidecar):/;
const packages = /^@(?:earendil-works|mariozechner)\/pi-|^(?:@sinclair\/)?typebox(?:\/|$)/;
const typed = /\.[cm]?tsx?$/;
/** Built-in modules that are replaced in a sidecar. */
const replaced = { "tiller:globals": "sidecar:globals", "tiller:timers": "sidecar:timers", "tiller:require": "sidecar:require" };

/** A module's id is a path with the number of its extension, or the id of a built-in module. */
function idOf(url) {
	if (!url.startsWith("file:")) return url;
	const mark = url.search(/[?#]/);
	return mark < 0 ? fileURLToPath(url) : fileURLToPath(url.slice(0, mark)) + url.slice(mark);
}

function urlOf(id) {
	if (!id.startsWith("/")) return replaced[id] ?? id;
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
		const id = request({ type: "resolve", importer: idOf(from), name });
		return id.startsWith("node:") ? next(id, context) : found(id);
	}
	try {
		return next(name, context);
	} catch (error) {
		if (error?.code !== "MODULE_NOT_FOUND" || !from.startsWith("file:")) throw error;
		return found(request({ type: "locate", importer: idOf(from), name }));
	}
}

function load(url, context, next) {
	const isFile = url.startsWith("file:");
	const path = isFile ? idOf(url).replace(/\?\d+$/, "") : "";
	// Node loads required scripts itself, unless they contain types.
	if (!ours.test(url) && !(isFile && (/\?\d+$/.test(url) || typed.test(path)))) return next(url, context);
	const { source, isScript } = request({ type: "load", id: isFile ? idOf(url) : url });
	return { format: isScript ? "commonjs" : "module", source, shortCircuit: true };
}

function unfit(why) {
	send({ type: "unfit", why });
	end(0);
}

/** Bun reads TypeScript and resolves modules itself; only tiller's modules are passed to it. */
function addPlugin(build) {
	const found = (id) => {
		const url = urlOf(id);
		const colon = url.indexOf(":");
		return { namespace: url.slice(0, colon), path: url.slice(colon + 1) };
	};
	for (const [name, id] of request({ type: "packages" })) {
		const all = JSON.stringify(id);
		build.module(name, () => ({ contents: `export * from ${all};export { default } from ${all};`, loader: "js" }));
	}
	build.onResolve({ filter: ours }, ({ path }) => found(path));
	for (const namespace of ["tiller", "pi", "facade", "sidecar"]) {
		build.onResolve({ filter: ours, namespace }, ({ path }) => found(path));
		build.onLoad({ filter: /./, namespace }, ({ path }) => {
			const id = replaced[`${namespace}:${path}`] ?? `${namespace}:${path}`;
			return { contents: request({ type: "load", id }).source, loader: "js" };
		});
	}
}

const isBun = globalThis.Bun !== undefined;
if (!isBun && !nodeModule.registerHooks) unfit(`version ${process.version} is too old, 22.15 or later is needed`);
send({ type: "hello" });
if (isBun) globalThis.Bun.plugin({ name: "tiller", setup: addPlugin });
else nodeModule.registerHooks({ resolve, load });
Object.defineProperty(globalThis, "__tillerRequests", { value: { send, request, read, end, messageFile }, configurable: true });
import("sidecar:main").catch((error) => {
	fs.writeSync(2, `${error?.stack ?? error}\n`);
	end(1);
});
