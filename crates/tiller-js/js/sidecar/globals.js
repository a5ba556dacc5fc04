// A sidecar has globals of its own; nothing is missing. Only what is written with `console` takes
// the way of everything else, so that it keeps its order and its level.

import { format } from "node:util";
import { log } from "tiller:host";

const levels = { log: "info", info: "info", debug: "debug", trace: "debug", warn: "warn", error: "error" };

for (const [name, level] of Object.entries(levels)) {
	console[name] = (...values) => log(level, format(...values));
}
