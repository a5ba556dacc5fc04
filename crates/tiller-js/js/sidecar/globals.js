// A sidecar has its own globals. Only `console` goes through tiller, so that its lines keep their order and
// level.

import { format } from "node:util";
import { log } from "tiller:host";

const levels = { log: "info", info: "info", debug: "debug", trace: "debug", warn: "warn", error: "error" };

for (const [name, level] of Object.entries(levels)) {
	console[name] = (...values) => log(level, format(...values));
}
