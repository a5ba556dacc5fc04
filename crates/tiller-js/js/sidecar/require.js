// A sidecar has its own CommonJS. Facades of scripts, and modules that use script names, find it here.

import { createRequire } from "node:module";

export function runScript(id) {
	const path = id.replace(/\?\d+$/, "");
	return createRequire(path)(path);
}

export function scopeOf(meta) {
	return { require: createRequire(meta.url), __filename: meta.filename, __dirname: meta.dirname };
}
