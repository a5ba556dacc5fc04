// Paths by POSIX rules. The Windows rules exist for extensions that handle Windows paths.

import { query } from "tiller:host";

function checked(path, name = "path") {
	if (typeof path === "string") return path;
	const error = new TypeError(`The "${name}" argument must be of type string. Received ${path === null ? "null" : typeof path}`);
	error.code = "ERR_INVALID_ARG_TYPE";
	throw error;
}

/** Removes `.` and `..`; a relative path keeps leading `..`. */
function tidy(parts, mayLeave) {
	const kept = [];
	for (const part of parts) {
		if (part === "" || part === ".") continue;
		if (part !== "..") kept.push(part);
		else if (kept.length > 0 && kept.at(-1) !== "..") kept.pop();
		else if (mayLeave) kept.push("..");
	}
	return kept;
}

function make({ sep, delimiter, split, rootOf, cwd }) {
	const isSep = (c) => split.test(c);

	function normalize(path) {
		checked(path);
		if (path === "") return ".";
		const root = rootOf(path);
		const rest = path.slice(root.length);
		const isAbsolutePath = isAbsolute(path);
		const parts = tidy(rest.split(split), !isAbsolutePath);
		let result = parts.join(sep);
		if (result === "" && !isAbsolutePath) result = ".";
		if (result !== "" && isSep(path.at(-1)) && parts.length > 0) result += sep;
		return root.replace(/[\\/]/g, sep) + result;
	}

	function isAbsolute(path) {
		const root = rootOf(checked(path));
		return root !== "" && isSep(root.at(-1));
	}

	function join(...paths) {
		const joined = paths.map((path) => checked(path)).filter((path) => path !== "").join(sep);
		return joined === "" ? "." : normalize(joined);
	}

	function resolve(...paths) {
		let resolved = "";
		for (let at = paths.length - 1; at >= -1 && !(resolved !== "" && isAbsolute(resolved)); at--) {
			const path = at >= 0 ? checked(paths[at]) : cwd();
			if (path === "") continue;
			resolved = resolved === "" ? path : `${path}${sep}${resolved}`;
		}
		const root = rootOf(resolved);
		const parts = tidy(resolved.slice(root.length).split(split), false);
		return root.replace(/[\\/]/g, sep) + parts.join(sep) || sep;
	}

	function relative(from, to) {
		const [start, end] = [resolve(checked(from, "from")), resolve(checked(to, "to"))];
		if (start === end) return "";
		const a = start.split(split).filter((part) => part !== "");
		const b = end.split(split).filter((part) => part !== "");
		let same = 0;
		while (same < a.length && same < b.length && a[same] === b[same]) same++;
		return [...a.slice(same).map(() => ".."), ...b.slice(same)].join(sep);
	}

	function trimmed(path) {
		const root = rootOf(path);
		let end = path.length;
		while (end > root.length && isSep(path[end - 1])) end--;
		return path.slice(0, end);
	}

	function lastSep(path) {
		for (let at = path.length - 1; at >= 0; at--) if (isSep(path[at])) return at;
		return -1;
	}

	function dirname(path) {
		if (checked(path) === "") return ".";
		const root = rootOf(path);
		const whole = trimmed(path);
		const at = lastSep(whole.slice(root.length));
		if (at < 0) return root === "" ? "." : root;
		let end = root.length + at;
		while (end > root.length && isSep(whole[end - 1])) end--;
		return whole.slice(0, end) || root || ".";
	}

	function basename(path, suffix) {
		const whole = trimmed(checked(path));
		const root = rootOf(whole);
		const base = whole.slice(root.length).slice(lastSep(whole.slice(root.length)) + 1);
		if (suffix && base !== suffix && base.endsWith(suffix)) return base.slice(0, -suffix.length);
		return base;
	}

	function extname(path) {
		const base = basename(path);
		const at = base.lastIndexOf(".");
		return at <= 0 || base === ".." ? "" : base.slice(at);
	}

	function parse(path) {
		const root = rootOf(checked(path));
		const base = basename(path);
		const ext = extname(path);
		const dir = path === root || base === "" ? root : dirname(path);
		return { root, dir: dir === "." && !path.startsWith(".") ? "" : dir, base, ext, name: base.slice(0, base.length - ext.length) };
	}

	function format({ dir, root, base, name, ext }) {
		const folder = dir || root || "";
		const dotted = ext ? (ext.startsWith(".") ? ext : `.${ext}`) : "";
		const file = base || `${name ?? ""}${dotted}`;
		if (!folder) return file;
		return folder === root ? `${folder}${file}` : `${folder}${sep}${file}`;
	}

	const matchesGlob = (path, pattern) => globPattern(pattern).test(path);

	return {
		sep,
		delimiter,
		normalize,
		isAbsolute,
		join,
		resolve,
		relative,
		dirname,
		basename,
		extname,
		parse,
		format,
		matchesGlob,
		toNamespacedPath: (path) => path,
	};
}

/** A regular expression for a glob with `*`, `**`, `?`, `[…]` and `{a,b}`. */
export function globPattern(glob) {
	let source = "";
	let inBraces = 0;
	for (let at = 0; at < glob.length; at++) {
		const c = glob[at];
		if (c === "*" && glob[at + 1] === "*") {
			at++;
			if (glob[at + 1] === "/") {
				at++;
				source += "(?:[^/]+/)*";
			} else source += ".*";
		} else if (c === "*") source += "[^/]*";
		else if (c === "?") source += "[^/]";
		else if (c === "[") {
			const end = glob.indexOf("]", at + 1);
			if (end < 0) source += "\\[";
			else {
				source += `[${glob.slice(at + 1, end).replace(/^!/, "^").replace(/\\/g, "\\\\")}]`;
				at = end;
			}
		} else if (c === "{") {
			inBraces++;
			source += "(?:";
		} else if (c === "}" && inBraces > 0) {
			inBraces--;
			source += ")";
		} else if (c === "," && inBraces > 0) source += "|";
		else source += c.replace(/[.+^$()|\\\]]/, "\\$&");
	}
	return new RegExp(`^${source}$`);
}

export const posix = make({
	sep: "/",
	delimiter: ":",
	split: /\//,
	rootOf: (path) => (path.startsWith("/") ? "/" : ""),
	cwd: () => query("cwd"),
});

export const win32 = make({
	sep: "\\",
	delimiter: ";",
	split: /[\\/]/,
	rootOf: (path) => /^(?:[a-zA-Z]:[\\/]?|[\\/]{2}[^\\/]+[\\/]+[^\\/]+[\\/]?|[\\/])/.exec(path)?.[0] ?? "",
	cwd: () => "C:\\",
});

posix.posix = win32.posix = posix;
posix.win32 = win32.win32 = win32;

const { sep, delimiter } = posix;
export { sep, delimiter };
const { normalize, isAbsolute, join, resolve } = posix;
export { normalize, isAbsolute, join, resolve };
const { relative, dirname, basename, extname } = posix;
export { relative, dirname, basename, extname };
const { parse, format, matchesGlob, toNamespacedPath } = posix;
export { parse, format, matchesGlob, toNamespacedPath };
export default posix;
