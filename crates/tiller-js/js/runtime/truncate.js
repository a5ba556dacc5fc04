// Truncates text to a number of lines and bytes.

import { sync } from "tiller:host";

export const DEFAULT_MAX_LINES = 2000;
export const DEFAULT_MAX_BYTES = 51200;

/** A limit of `Infinity` becomes null in JSON, which is no limit. */
function truncate(end, text, { maxLines = DEFAULT_MAX_LINES, maxBytes = DEFAULT_MAX_BYTES } = {}) {
	const truncation = sync("text.truncate", { end, text: text.toWellFormed(), maxLines, maxBytes });
	return { ...truncation, maxLines, maxBytes };
}

export const truncateHead = (text, limits) => truncate("head", text, limits);
export const truncateTail = (text, limits) => truncate("tail", text, limits);

export function truncateLine(text, max = 500) {
	return text.length <= max ? { text, wasTruncated: false } : { text: `${text.slice(0, max)}... [truncated]`, wasTruncated: true };
}

export const formatSize = (bytes) => sync("text.formatSize", bytes);
