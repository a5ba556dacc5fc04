// `util`: formatting of values, promisify and the like.

import { sync } from "tiller:host";

const custom = Symbol.for("nodejs.util.inspect.custom");

function quoted(text) {
	const json = JSON.stringify(text).slice(1, -1).replace(/\\"/g, '"');
	if (!text.includes("'")) return `'${json}'`;
	return text.includes('"') ? `\`${json}\`` : `"${json}"`;
}

function keyText(key) {
	if (typeof key === "symbol") return `[${String(key)}]`;
	return /^[A-Za-z_$][\w$]*$/.test(key) ? key : quoted(key);
}

function functionText(value) {
	const source = Function.prototype.toString.call(value);
	if (source.startsWith("class")) return `[class ${value.name || "(anonymous)"}]`;
	const kind = value.constructor?.name ?? "Function";
	return value.name ? `[${kind}: ${value.name}]` : `[${kind} (anonymous)]`;
}

function nameOf(value) {
	try {
		return Object.getPrototypeOf(value)?.constructor?.name ?? "[Object: null prototype]";
	} catch {
		return "Object";
	}
}

function itemsOf(value, show) {
	if (Array.isArray(value)) return value.slice(0, 100).map(show);
	if (value instanceof Set) return [...value].map(show);
	if (value instanceof Map) return [...value].map(([key, held]) => `${show(key)} => ${show(held)}`);
	if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return Array.from(value.subarray(0, 100), String);
	return undefined;
}

function show(value, options, depth, seen) {
	switch (typeof value) {
		case "string":
			return quoted(value);
		case "bigint":
			return `${value}n`;
		case "symbol":
			return String(value);
		case "function":
			return functionText(value);
		case "number":
			return Object.is(value, -0) ? "-0" : String(value);
		case "object":
			break;
		default:
			return String(value);
	}
	if (value === null) return "null";
	if (seen.includes(value)) return "[Circular *1]";
	if (typeof value[custom] === "function" && options.customInspect !== false) {
		const shown = value[custom](options.depth - depth, options, inspect);
		return typeof shown === "string" ? shown : show(shown, options, depth, [...seen, value]);
	}
	if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
	if (value instanceof RegExp) return String(value);
	if (value instanceof Promise) return "Promise { <pending> }";
	const name = nameOf(value);
	if (depth > (options.depth ?? 2)) return Array.isArray(value) ? "[Array]" : `[${name}]`;
	const inner = (held) => show(held, options, depth + 1, [...seen, value]);
	const items = itemsOf(value, inner);
	const own = items && !(value instanceof Map) && !(value instanceof Set) ? Object.keys(value).filter((key) => !/^\d+$/.test(key)) : Object.keys(value);
	const pairs = own.map((key) => {
		const { get, set, value: held } = Object.getOwnPropertyDescriptor(value, key) ?? {};
		const text = get ? (set ? "[Getter/Setter]" : "[Getter]") : set ? "[Setter]" : inner(held);
		return `${keyText(key)}: ${text}`;
	});
	if (value instanceof Error) {
		const head = value.stack ? `${value.name}: ${value.message}\n${value.stack}`.trimEnd() : `[${value.name}: ${value.message}]`;
		return pairs.length > 0 ? `${head} { ${pairs.join(", ")} }` : head;
	}
	const [open, close] = Array.isArray(value) || (items && !(value instanceof Map) && !(value instanceof Set)) ? ["[", "]"] : ["{", "}"];
	const size = items && !Array.isArray(value) ? `(${value.size ?? value.length})` : "";
	const prefix = name === "Object" || name === "Array" ? "" : `${name}${size} `;
	const all = [...(items ?? []), ...pairs];
	if (Array.isArray(value) && value.length > 100) all.push(`... ${value.length - 100} more items`);
	if (all.length === 0) return `${prefix}${open}${close}`;
	const line = `${prefix}${open} ${all.join(", ")} ${close}`;
	if ((line.length <= (options.breakLength ?? 80) && !line.includes("\n")) || options.compact === true || options.breakLength === Infinity) return line;
	const indent = "  ".repeat(depth + 1);
	return `${prefix}${open}\n${indent}${all.join(`,\n${indent}`)}\n${"  ".repeat(depth)}${close}`;
}

export function inspect(value, options = {}) {
	const wanted = typeof options === "object" && options !== null ? options : { showHidden: options };
	return show(value, { depth: wanted.depth === null ? Infinity : 2, ...wanted, ...(wanted.depth === null && { depth: Infinity }) }, 0, []);
}
inspect.custom = custom;
inspect.defaultOptions = { depth: 2 };
inspect.colors = {};
inspect.styles = {};

export function format(...values) {
	return formatWithOptions({}, ...values);
}

export function formatWithOptions(options, first, ...values) {
	let text;
	if (typeof first === "string") {
		text = first.replace(/%([sdifjoOc%])/g, (whole, kind) => {
			if (kind === "%") return "%";
			if (values.length === 0) return whole;
			const value = values.shift();
			switch (kind) {
				case "s":
					return typeof value === "object" && value !== null ? inspect(value, { depth: 0 }) : String(value);
				case "d":
					return typeof value === "object" ? "NaN" : String(Number(value));
				case "i":
					return String(Number.parseInt(value, 10));
				case "f":
					return String(Number.parseFloat(value));
				case "j":
					return JSON.stringify(value);
				case "c":
					return "";
				default:
					return inspect(value, options);
			}
		});
	} else if (first !== undefined || values.length > 0) {
		text = inspect(first, options);
	} else {
		text = arguments.length > 1 ? "undefined" : "";
	}
	for (const value of values) text += ` ${typeof value === "string" ? value : inspect(value, options)}`;
	return text;
}

export function promisify(original) {
	if (typeof original !== "function") throw new TypeError('The "original" argument must be of type function');
	if (original[promisify.custom]) return original[promisify.custom];
	const promised = function (...args) {
		return new Promise((resolve, reject) => {
			original.call(this, ...args, (error, ...values) => (error ? reject(error) : resolve(values[0])));
		});
	};
	return Object.setPrototypeOf(Object.defineProperties(promised, Object.getOwnPropertyDescriptors(original)), Object.getPrototypeOf(original));
}
promisify.custom = Symbol.for("nodejs.util.promisify.custom");

export function callbackify(original) {
	return function (...args) {
		const callback = args.pop();
		original.apply(this, args).then(
			(value) => queueMicrotask(() => callback(null, value)),
			(error) => queueMicrotask(() => callback(error)),
		);
	};
}

export function deprecate(original) {
	return original;
}

export function inherits(constructor, parent) {
	Object.defineProperty(constructor, "super_", { value: parent, writable: true, configurable: true });
	Object.setPrototypeOf(constructor.prototype, parent.prototype);
}

export function debuglog() {
	return Object.assign(() => {}, { enabled: false });
}
export { debuglog as debug };

export function isDeepStrictEqual(a, b) {
	if (Object.is(a, b)) return true;
	if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
	if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
	if (a instanceof Date) return a.getTime() === b.getTime();
	if (a instanceof RegExp) return String(a) === String(b);
	if (a instanceof Map) return a.size === b.size && [...a].every(([key, value]) => b.has(key) && isDeepStrictEqual(value, b.get(key)));
	if (a instanceof Set) return a.size === b.size && [...a].every((value) => b.has(value));
	const keys = Reflect.ownKeys(a);
	return keys.length === Reflect.ownKeys(b).length && keys.every((key) => Object.hasOwn(b, key) && isDeepStrictEqual(a[key], b[key]));
}

const ansi = /[\u001b\u009b][[\]()#;?]*(?:(?:(?:[a-zA-Z\d]*(?:;[-a-zA-Z\d/#&.:=?%@~_]*)*)?\u0007)|(?:(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PR-TZcf-nq-uy=><~]))/g;

export function stripVTControlCharacters(text) {
	return String(text).replace(ansi, "");
}

export function styleText(_format, text) {
	return String(text);
}

export function toUSVString(text) {
	return String(text).toWellFormed();
}

export function parseArgs({ args = [], options = {}, allowPositionals = false, strict = true } = {}) {
	const values = {};
	const positionals = [];
	for (const [name, option] of Object.entries(options)) if (option.default !== undefined) values[name] = option.default;
	const byShort = (short) => Object.keys(options).find((name) => options[name].short === short);
	for (let at = 0; at < args.length; at++) {
		const arg = args[at];
		if (arg === "--") {
			positionals.push(...args.slice(at + 1));
			break;
		}
		const match = /^--([^=]+)(?:=(.*))?$/s.exec(arg) ?? /^-([a-zA-Z])$/.exec(arg);
		if (!match) {
			positionals.push(arg);
			continue;
		}
		const name = arg.startsWith("--") ? match[1] : (byShort(match[1]) ?? match[1]);
		const option = options[name];
		if (!option && strict) throw Object.assign(new TypeError(`Unknown option '${arg}'`), { code: "ERR_PARSE_ARGS_UNKNOWN_OPTION" });
		const value = option?.type === "string" ? (match[2] ?? args[++at]) : (match[2] ?? true);
		if (option?.multiple) (values[name] ??= []).push(value);
		else values[name] = value;
	}
	if (positionals.length > 0 && strict && !allowPositionals) {
		throw Object.assign(new TypeError(`Unexpected argument '${positionals[0]}'`), { code: "ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL" });
	}
	return { values, positionals };
}

export function getSystemErrorName(number) {
	return { 2: "ENOENT", 13: "EACCES", 17: "EEXIST", 20: "ENOTDIR", 21: "EISDIR" }[Math.abs(number)] ?? `E${Math.abs(number)}`;
}

export function aborted(signal) {
	return new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

const tagged = (name) => (value) => Object.prototype.toString.call(value) === `[object ${name}]`;

export const types = {
	isDate: tagged("Date"),
	isRegExp: tagged("RegExp"),
	isPromise: (value) => value instanceof Promise,
	isMap: (value) => value instanceof Map,
	isSet: (value) => value instanceof Set,
	isWeakMap: (value) => value instanceof WeakMap,
	isWeakSet: (value) => value instanceof WeakSet,
	isNativeError: (value) => value instanceof Error,
	isArrayBuffer: (value) => value instanceof ArrayBuffer,
	isAnyArrayBuffer: (value) => value instanceof ArrayBuffer,
	isSharedArrayBuffer: tagged("SharedArrayBuffer"),
	isTypedArray: (value) => ArrayBuffer.isView(value) && !(value instanceof DataView),
	isUint8Array: (value) => value instanceof Uint8Array,
	isArrayBufferView: (value) => ArrayBuffer.isView(value),
	isDataView: (value) => value instanceof DataView,
	isAsyncFunction: tagged("AsyncFunction"),
	isGeneratorFunction: tagged("GeneratorFunction"),
	isGeneratorObject: tagged("Generator"),
	isProxy: () => false,
	isBoxedPrimitive: (value) => value instanceof Number || value instanceof String || value instanceof Boolean,
	isModuleNamespaceObject: tagged("Module"),
	isSymbolObject: () => false,
	isKeyObject: () => false,
	isCryptoKey: () => false,
};

const { isArray } = Array;
const { TextDecoder, TextEncoder } = globalThis;
const isString = (value) => typeof value === "string";
const isFunction = (value) => typeof value === "function";
const isObject = (value) => typeof value === "object" && value !== null;
const { isDate, isRegExp } = types;
const isError = types.isNativeError;
const isUndefined = (value) => value === undefined;
export { isArray, TextDecoder, TextEncoder, isString, isFunction, isObject, isDate, isRegExp, isError, isUndefined };

export class MIMEType {
	constructor(text) {
		[this.type, this.subtype] = String(text).split(";")[0].trim().split("/");
		this.params = new Map();
	}
	get essence() {
		return `${this.type}/${this.subtype}`;
	}
	toString() {
		return this.essence;
	}
}

/** The length of text in UTF-8 bytes. */
export function byteLength(text) {
	return sync("text.encode", text.toWellFormed()).length;
}
