// `querystring`.

export const escape = (text) => encodeURIComponent(text);
export function unescape(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

export function parse(text, sep = "&", eq = "=") {
	const result = Object.create(null);
	for (const part of String(text).split(sep)) {
		if (part === "") continue;
		const at = part.indexOf(eq);
		const plain = (value) => unescape(value.replace(/\+/g, " "));
		const [key, value] = at < 0 ? [plain(part), ""] : [plain(part.slice(0, at)), plain(part.slice(at + eq.length))];
		if (key in result) result[key] = [result[key], value].flat();
		else result[key] = value;
	}
	return result;
}

export function stringify(object, sep = "&", eq = "=") {
	return Object.entries(object ?? {})
		.flatMap(([key, value]) => [value].flat().map((each) => `${escape(key)}${eq}${escape(each ?? "")}`))
		.join(sep);
}

export { parse as decode, stringify as encode };
