// The YAML block at the head of a Markdown file. Supports nested maps and lists, quoted and plain values,
// literal and folded text.

export function parseFrontmatter(source) {
	const text = String(source).replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n");
	const end = text.startsWith("---") ? text.indexOf("\n---", 3) : -1;
	if (end < 0) return { frontmatter: {}, body: text };
	return { frontmatter: parseYaml(text.slice(4, end)) ?? {}, body: text.slice(end + 4).trim() };
}

export function stripFrontmatter(source) {
	return parseFrontmatter(source).body;
}

export function parseYaml(text) {
	const lines = [];
	for (const [number, raw] of text.split("\n").entries()) {
		lines.push({ number: number + 1, raw, indent: /^ */.exec(raw)[0].length, text: raw.trim() });
	}
	const state = { lines, at: 0 };
	const value = block(state, 0);
	skipBlank(state);
	if (state.at < lines.length) throw bad(lines[state.at]);
	return value;
}

function bad({ number, text }) {
	return new Error(`YAML: line ${number}: cannot read "${text}"`);
}

function skipBlank(state) {
	while (state.at < state.lines.length && /^(#.*)?$/.test(state.lines[state.at].text)) state.at++;
}

function block(state, indent) {
	skipBlank(state);
	const line = state.lines[state.at];
	if (!line || line.indent < indent) return null;
	if (line.text === "-" || line.text.startsWith("- ")) return list(state, line.indent);
	if (keyOf(line.text)) return map(state, line.indent);
	state.at++;
	return scalar(line.text, line);
}

function keyOf(text) {
	const match = /^(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s#&*!|>'"%@`[{\]},-][^:#]*?|[^\s:]+))\s*:(?:\s+(.*))?$/.exec(text);
	return match && { key: match[1] ?? match[2] ?? match[3], rest: match[4] ?? "" };
}

function map(state, indent) {
	const result = {};
	for (;;) {
		skipBlank(state);
		const line = state.lines[state.at];
		if (!line || line.indent < indent) return result;
		const found = line.indent === indent && keyOf(line.text);
		if (!found) throw bad(line);
		state.at++;
		result[found.key] = valueAfter(state, found.rest, indent, line);
	}
}

function list(state, indent) {
	const result = [];
	for (;;) {
		skipBlank(state);
		const line = state.lines[state.at];
		if (!line || line.indent < indent || !(line.text === "-" || line.text.startsWith("- "))) return result;
		const rest = line.text.slice(1).trim();
		if (keyOf(rest)) {
			// A map that begins after the dash.
			const inner = line.raw.indexOf(rest, line.indent + 1);
			state.lines[state.at] = { ...line, indent: inner, text: rest };
			result.push(map(state, inner));
		} else {
			state.at++;
			result.push(valueAfter(state, rest, indent, line));
		}
	}
}

function valueAfter(state, rest, indent, line) {
	const clean = rest.replace(/^#.*$/, "");
	const folded = /^([|>])([+-]?)$/.exec(clean);
	if (folded) return literal(state, indent, folded[1] === ">", folded[2]);
	if (clean !== "") return scalar(clean, line, state, indent);
	skipBlank(state);
	const next = state.lines[state.at];
	const isList = next && (next.text === "-" || next.text.startsWith("- "));
	if (!next || next.indent < indent || (next.indent === indent && !isList)) return null;
	return block(state, next.indent);
}

function literal(state, indent, isFolded, chomp) {
	const kept = [];
	let inner;
	while (state.at < state.lines.length) {
		const line = state.lines[state.at];
		if (line.text !== "" && line.indent <= indent) break;
		inner ??= line.text === "" ? undefined : line.indent;
		kept.push(line.raw.slice(inner ?? 0));
		state.at++;
	}
	while (kept.at(-1)?.trim() === "") kept.pop();
	const text = isFolded ? kept.join("\n").replace(/([^\n])\n(?=[^\n ])/g, "$1 ") : kept.join("\n");
	return chomp === "-" ? text : `${text}\n`;
}

function scalar(text, line, state, indent = -1) {
	let whole = text;
	if (state && !/^["'[{]/.test(whole)) {
		// A plain value continues in lines with more indentation.
		while (state.at < state.lines.length) {
			const next = state.lines[state.at];
			if (next.text === "" || next.indent <= indent || next.text.startsWith("#")) break;
			whole += ` ${next.text}`;
			state.at++;
		}
	}
	if (/^["[{]/.test(whole)) return flow(whole, line);
	if (whole.startsWith("'")) {
		const match = /^'((?:[^']|'')*)'\s*(?:#.*)?$/.exec(whole);
		if (!match) throw bad(line);
		return match[1].replace(/''/g, "'");
	}
	return plain(whole.replace(/\s+#.*$/, ""));
}

function plain(text) {
	if (/^(null|~|)$/i.test(text)) return null;
	if (/^(true|yes|on)$/i.test(text)) return /^true$/i.test(text) ? true : text;
	if (/^false$/i.test(text)) return false;
	if (/^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i.test(text)) return Number(text);
	return text;
}

/** Flow lists and maps, and quoted text. */
function flow(text, line) {
	let at = 0;
	const skip = () => {
		while (/\s/.test(text[at] ?? "")) at++;
	};
	const value = () => {
		skip();
		const c = text[at];
		if (c === '"') {
			const match = /^"(?:[^"\\]|\\.)*"/.exec(text.slice(at));
			if (!match) throw bad(line);
			at += match[0].length;
			return JSON.parse(match[0]);
		}
		if (c === "'") {
			const match = /^'(?:[^']|'')*'/.exec(text.slice(at));
			if (!match) throw bad(line);
			at += match[0].length;
			return match[0].slice(1, -1).replace(/''/g, "'");
		}
		if (c === "[") return items("]", () => value());
		if (c === "{") {
			return Object.fromEntries(
				items("}", () => {
					const key = value();
					skip();
					if (text[at] !== ":") return [key, null];
					at++;
					return [key, value()];
				}),
			);
		}
		const match = /^[^,\[\]{}:]+(?::(?!\s)[^,\[\]{}:]*)*/.exec(text.slice(at));
		if (!match) throw bad(line);
		at += match[0].length;
		return plain(match[0].trim());
	};
	const items = (close, item) => {
		at++;
		const found = [];
		for (;;) {
			skip();
			if (at >= text.length) throw bad(line);
			if (text[at] === close) {
				at++;
				return found;
			}
			found.push(item());
			skip();
			if (text[at] === ",") at++;
			else if (text[at] !== close) throw bad(line);
		}
	};
	const result = value();
	skip();
	if (at < text.length && text[at] !== "#") throw bad(line);
	return result;
}
