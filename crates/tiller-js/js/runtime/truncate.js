// Truncates text to a number of lines and bytes.

export const DEFAULT_MAX_LINES = 2000;
export const DEFAULT_MAX_BYTES = 51200;

const bytesIn = (text) => new TextEncoder().encode(text).length;

function linesOf(text) {
	const lines = text.split("\n");
	// A final newline ends a line and does not begin one.
	if (lines.length > 1 && lines.at(-1) === "") lines.pop();
	return text === "" ? [] : lines;
}

function cut(text, lines, kept, truncatedBy, more, { maxLines, maxBytes }) {
	const content = kept.join("\n");
	return {
		content,
		truncated: truncatedBy !== null,
		truncatedBy,
		totalLines: lines.length,
		totalBytes: bytesIn(text),
		outputLines: kept.length,
		outputBytes: bytesIn(content),
		lastLinePartial: false,
		firstLineExceedsLimit: false,
		maxLines,
		maxBytes,
		...more,
	};
}

function whole(text, lines, limits) {
	if (lines.length > limits.maxLines || bytesIn(text) > limits.maxBytes) return undefined;
	return { ...cut(text, lines, lines, null, {}, limits), content: text, outputBytes: bytesIn(text) };
}

export function truncateHead(text, { maxLines = DEFAULT_MAX_LINES, maxBytes = DEFAULT_MAX_BYTES } = {}) {
	const limits = { maxLines, maxBytes };
	const lines = linesOf(text);
	const fits = whole(text, lines, limits);
	if (fits) return fits;
	if (bytesIn(lines[0] ?? "") > maxBytes) return cut(text, lines, [], "bytes", { firstLineExceedsLimit: true }, limits);
	const kept = [];
	let bytes = 0;
	for (const line of lines) {
		if (kept.length >= maxLines) return cut(text, lines, kept, "lines", {}, limits);
		const size = bytesIn(line) + (kept.length > 0 ? 1 : 0);
		if (bytes + size > maxBytes) return cut(text, lines, kept, "bytes", {}, limits);
		kept.push(line);
		bytes += size;
	}
	return cut(text, lines, kept, "bytes", {}, limits);
}

export function truncateTail(text, { maxLines = DEFAULT_MAX_LINES, maxBytes = DEFAULT_MAX_BYTES } = {}) {
	const limits = { maxLines, maxBytes };
	const lines = linesOf(text);
	const fits = whole(text, lines, limits);
	if (fits) return fits;
	const kept = [];
	let bytes = 0;
	for (const line of lines.toReversed()) {
		if (kept.length >= maxLines) return cut(text, lines, kept.toReversed(), "lines", {}, limits);
		const size = bytesIn(line) + (kept.length > 0 ? 1 : 0);
		if (bytes + size > maxBytes) {
			if (kept.length > 0) break;
			return cut(text, lines, [endOf(line, maxBytes)], "bytes", { lastLinePartial: true }, limits);
		}
		kept.push(line);
		bytes += size;
	}
	return cut(text, lines, kept.toReversed(), "bytes", {}, limits);
}

/** The last bytes of a line, starting at a whole character. */
function endOf(line, maxBytes) {
	const bytes = new TextEncoder().encode(line);
	let start = bytes.length - maxBytes;
	while (start < bytes.length && (bytes[start] & 0xc0) === 0x80) start++;
	return new TextDecoder().decode(bytes.subarray(start));
}

export function truncateLine(text, max = 500) {
	return text.length <= max ? { text, wasTruncated: false } : { text: `${text.slice(0, max)}... [truncated]`, wasTruncated: true };
}

export function formatSize(bytes) {
	if (bytes < 1024) return `${bytes}B`;
	if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)}KB`;
	return `${(bytes / (1024 * 1024)).toFixed(1)}MB`;
}
