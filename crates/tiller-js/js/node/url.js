// `url`: node's functions beside the global classes.

const { URL, URLSearchParams } = globalThis;
export { URL, URLSearchParams };

function invalid(message, code) {
	return Object.assign(new TypeError(message), { code });
}

export function fileURLToPath(url) {
	const parsed = typeof url === "string" ? new URL(url) : url;
	if (parsed.protocol !== "file:") throw invalid("The URL must be of scheme file", "ERR_INVALID_URL_SCHEME");
	if (/%2f/i.test(parsed.pathname)) throw invalid("File URL path must not include encoded / characters", "ERR_INVALID_FILE_URL_PATH");
	return decodeURIComponent(parsed.pathname);
}

export function fileURLToPathBuffer(url) {
	return new TextEncoder().encode(fileURLToPath(url));
}

export function pathToFileURL(path) {
	const absolute = path.startsWith("/") ? path : `${globalThis.process.cwd()}/${path}`;
	const url = new URL("file:///");
	url.pathname = absolute.replace(/%/g, "%25").replace(/\\/g, "%5C").replace(/\n/g, "%0A").replace(/\r/g, "%0D").replace(/\t/g, "%09").replace(/\?/g, "%3F").replace(/#/g, "%23");
	return url;
}

export function urlToHttpOptions(url) {
	const { protocol, hostname, hash, search, pathname, href, port, username, password } = url;
	const options = { protocol, hostname: hostname.replace(/^\[|\]$/g, ""), hash, search, pathname, path: `${pathname}${search}`, href };
	if (port !== "") options.port = Number(port);
	if (username || password) options.auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
	return options;
}

/** The legacy parser. */
export function parse(text, parseQuery = false) {
	const match = /^(?:([a-zA-Z][\w+.-]*:)(\/\/)?)?(?:([^/?#@]*)@)?([^/?#:]*|\[[^\]]*\])?(?::(\d+))?([^?#]*)(\?[^#]*)?(#.*)?$/.exec(String(text)) ?? [];
	const [, protocol, slashes, auth, hostname, port, pathname, search, hash] = match;
	const hasHost = slashes !== undefined;
	const query = search ? search.slice(1) : null;
	return {
		protocol: protocol ?? null,
		slashes: hasHost || null,
		auth: auth ?? null,
		host: hasHost ? `${hostname}${port ? `:${port}` : ""}` : null,
		port: port ?? null,
		hostname: hasHost ? hostname : null,
		hash: hash ?? null,
		search: search ?? null,
		query: parseQuery ? Object.fromEntries(new URLSearchParams(query ?? "")) : query,
		pathname: (hasHost ? pathname : `${hostname ?? ""}${pathname ?? ""}`) || null,
		path: `${(hasHost ? pathname : `${hostname ?? ""}${pathname ?? ""}`) || ""}${search ?? ""}` || null,
		href: String(text),
	};
}

export function format(url) {
	if (typeof url === "string") return url;
	if (url instanceof URL) return url.href;
	const search = url.search ?? (url.query ? `?${typeof url.query === "string" ? url.query : new URLSearchParams(url.query)}` : "");
	const host = url.host ?? (url.hostname ? `${url.hostname}${url.port ? `:${url.port}` : ""}` : "");
	const protocol = url.protocol ? (url.protocol.endsWith(":") ? url.protocol : `${url.protocol}:`) : "";
	return `${protocol}${url.slashes || host ? "//" : ""}${url.auth ? `${url.auth}@` : ""}${host}${url.pathname ?? ""}${search}${url.hash ?? ""}`;
}

export function resolve(from, to) {
	return new URL(to, new URL(from, "resolve://")).href.replace(/^resolve:\/\//, "");
}

export const domainToASCII = (domain) => new URL(`http://${domain}`).hostname;
export const domainToUnicode = (domain) => domain;
