// A shell command through somebody's own operations, for the user's `!` commands and for tools.

import { formatSize, truncateTail } from "tiller:truncate";

/** Runs it and gives what a client is told of a command. */
export async function runOperations(operations, { command, cwd }, { signal, timeout, onData } = {}) {
	const chunks = [];
	const { exitCode } = await operations.exec(command, cwd, {
		onData: (data) => {
			chunks.push(data);
			onData?.(textOf(chunks));
		},
		signal,
		timeout,
		env: { ...globalThis.process.env },
	});
	const whole = textOf(chunks);
	const { content, truncated, ...truncation } = truncateTail(whole);
	let fullOutputPath;
	if (truncated) {
		const { writeFileSync } = await import("node:fs");
		const { tmpdir } = await import("node:os");
		const { randomBytes } = await import("node:crypto");
		fullOutputPath = `${tmpdir()}/pi-bash-${randomBytes(8).toString("hex")}.log`;
		writeFileSync(fullOutputPath, whole);
	}
	return {
		output: content,
		exitCode: exitCode ?? undefined,
		cancelled: signal?.aborted === true,
		truncated,
		fullOutputPath,
		truncation: truncated ? { content, truncated, ...truncation } : undefined,
	};
}

function textOf(chunks) {
	const decoder = new TextDecoder();
	return chunks.map((chunk) => (typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true }))).join("");
}

/** The note under output that was cut. */
export function cutNote({ truncation, fullOutputPath }) {
	const { totalLines, outputLines, outputBytes, lastLinePartial, truncatedBy, content } = truncation;
	if (lastLinePartial) return `\n\n[Showing last ${formatSize(outputBytes)} of line ${totalLines} (line is ${formatSize(content.length)}). Full output: ${fullOutputPath}]`;
	const limit = truncatedBy === "bytes" ? ` (${formatSize(51200)} limit)` : "";
	return `\n\n[Showing lines ${totalLines - outputLines + 1}-${totalLines} of ${totalLines}${limit}. Full output: ${fullOutputPath}]`;
}
