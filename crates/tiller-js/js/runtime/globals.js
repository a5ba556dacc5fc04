// The global object of extensions. Most globals are loaded when they are first used.

import { log, native } from "tiller:host";
import * as timers from "tiller:timers";

function define(name, value) {
	Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
}

/** A global that is loaded from a built-in module when it is first used. */
function lazily(id, names) {
	for (const name of names) {
		Object.defineProperty(globalThis, name, {
			configurable: true,
			get() {
				const value = native.importNow(id)[name];
				define(name, value);
				return value;
			},
			set(value) {
				define(name, value);
			},
		});
	}
}

for (const name of Object.keys(timers)) if (name !== "fire") define(name, timers[name]);
define("global", globalThis);
define("queueMicrotask", (callback) => {
	Promise.resolve().then(callback);
});

lazily("web:encoding", ["TextEncoder", "TextDecoder", "atob", "btoa"]);
lazily("web:url", ["URL", "URLSearchParams"]);
lazily("web:events", ["Event", "EventTarget", "CustomEvent", "DOMException", "AbortController", "AbortSignal"]);
lazily("web:fetch", ["fetch", "Headers", "Request", "Response"]);
lazily("web:blob", ["Blob", "File", "FormData"]);
lazily("web:streams", [
	"ReadableStream",
	"ReadableStreamDefaultReader",
	"WritableStream",
	"WritableStreamDefaultWriter",
	"TransformStream",
	"TextDecoderStream",
	"TextEncoderStream",
	"ByteLengthQueuingStrategy",
	"CountQueuingStrategy",
]);
lazily("web:clone", ["structuredClone", "MessageChannel", "MessagePort", "MessageEvent", "BroadcastChannel"]);
lazily("web:crypto", ["crypto", "Crypto"]);
lazily("web:performance", ["performance"]);
lazily("web:intl", ["Intl"]);
lazily("node:process", ["process"]);
lazily("node:buffer", ["Buffer"]);

// The engine has no locale data; numbers and dates are formatted as in English.
const own = (prototype, name, method) => Object.defineProperty(prototype, name, { value: method, writable: true, configurable: true });
own(Number.prototype, "toLocaleString", function (locale, options) {
	return new Intl.NumberFormat(locale, options).format(this);
});
own(BigInt.prototype, "toLocaleString", function (locale, options) {
	return new Intl.NumberFormat(locale, options).format(this);
});
own(Date.prototype, "toLocaleString", function (locale, options) {
	return new Intl.DateTimeFormat(locale, options ?? { dateStyle: "short", timeStyle: "medium" }).format(this);
});
own(Date.prototype, "toLocaleDateString", function (locale, options) {
	return new Intl.DateTimeFormat(locale, options ?? { dateStyle: "short" }).format(this);
});
own(Date.prototype, "toLocaleTimeString", function (locale, options) {
	return new Intl.DateTimeFormat(locale, options ?? { timeStyle: "medium" }).format(this);
});

define("navigator", { userAgent: "tiller", language: "en-US", languages: ["en-US"], hardwareConcurrency: 1 });

function shown(values) {
	if (values.length === 1 && typeof values[0] === "string") return values[0];
	return native.importNow("node:util").format(...values);
}

const write = (level) => (...values) => log(level, shown(values));
const counts = new Map();
const starts = new Map();
let indent = "";

define("console", {
	log: write("info"),
	info: write("info"),
	debug: write("debug"),
	warn: write("warn"),
	error: write("error"),
	trace: write("debug"),
	dir: (value) => log("info", shown([value])),
	dirxml: write("info"),
	table: write("info"),
	assert(condition, ...values) {
		if (!condition) log("error", `Assertion failed${values.length > 0 ? `: ${shown(values)}` : ""}`);
	},
	count(label = "default") {
		counts.set(label, (counts.get(label) ?? 0) + 1);
		log("info", `${label}: ${counts.get(label)}`);
	},
	countReset: (label = "default") => void counts.delete(label),
	group(...values) {
		if (values.length > 0) log("info", indent + shown(values));
		indent += "  ";
	},
	groupCollapsed(...values) {
		this.group(...values);
	},
	groupEnd() {
		indent = indent.slice(2);
	},
	time: (label = "default") => void starts.set(label, native.clock()),
	timeLog: (label = "default") => log("info", `${label}: ${(native.clock() - starts.get(label)).toFixed(3)}ms`),
	timeEnd(label = "default") {
		this.timeLog(label);
		starts.delete(label);
	},
	clear() {},
});
