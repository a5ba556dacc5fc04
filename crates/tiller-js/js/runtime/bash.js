// Runs a shell command with an extension's operations, for the user's commands and for tools.

import { stripVTControlCharacters } from "node:util";
import { formatSize, truncateTail } from "tiller:truncate";

const invalid =
	"Invalid user_bash handler result: return undefined for local execution or exactly one valid " +
	"{ operations } or { result } object";

/** Operations that handlers returned, until the host runs the command. */
const given = new Map();
let nextKey = 1;

/** The result of a `user_bash` handler, as the host reads it. */
export function answered(answer, extension) {
	const { result, operations } = Object(answer);
	if (operations === undefined && isResult(result)) {
		const { output, exitCode, cancelled, truncated, fullOutputPath } = result;
		return { result: { output, exitCode, cancelled, truncated, fullOutputPath } };
	}
	if (result === undefined && typeof operations?.exec === "function") {
		const key = nextKey++;
		given.set(key, operations);
		return { operations: { extension: extension.number, key } };
	}
	throw new Error(invalid);
}

function isResult(result) {
	if (typeof result !== "object" || result === null) return false;
	const { output, exitCode, cancelled, truncated } = result;
	const isCode = exitCode === undefined || exitCode === null || Number.isInteger(exitCode);
	return typeof output === "string" && isCode && typeof cancelled === "boolean" && typeof truncated === "boolean";
}

/** Runs the user's command with a handler's operations. `onOutput` is called with each chunk of output. */
export async function runGiven(key, call, signal, onOutput) {
	const operations = given.get(key);
	given.delete(key);
	let soFar = "";
	const onData = (_shown, piece) => {
		const text = plain(piece);
		soFar += text;
		if (text !== "") onOutput(text);
	};
	try {
		const { truncation, output, ...result } = await runOperations(operations, call, { signal, onData });
		return { ...result, output: plain(output) };
	} catch (error) {
		if (!signal.aborted) throw error;
		return { output: truncateTail(soFar).content, cancelled: true, truncated: false };
	}
}

/** Removes terminal escapes and control characters. */
function plain(text) {
	return stripVTControlCharacters(text).replace(/[\0-\x08\x0b-\x1f\x7f]/g, "");
}

/** How much of the output is shown while the command runs. */
const shownMax = 100_000;

/** Runs the command and returns the result that a client receives. `onData` is called with the end of the
 * output so far, and with the new part. */
export async function runOperations(operations, { command, cwd }, { signal, timeout, onData } = {}) {
	const decoder = new TextDecoder();
	const pieces = [];
	let shown = "";
	const { exitCode } = await operations.exec(command, cwd, {
		onData: (data) => {
			const piece = typeof data === "string" ? data : decoder.decode(data, { stream: true });
			pieces.push(piece);
			shown = (shown + piece).slice(-shownMax);
			onData?.(shown, piece);
		},
		signal,
		timeout,
		env: { ...globalThis.process.env },
	});
	pieces.push(decoder.decode());
	const whole = pieces.join("");
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

/** The note under truncated output. */
export function cutNote({ truncation, fullOutputPath }) {
	const { totalLines, outputLines, outputBytes, lastLinePartial, truncatedBy, content } = truncation;
	if (lastLinePartial) return `\n\n[Showing last ${formatSize(outputBytes)} of line ${totalLines} (line is ${formatSize(content.length)}). Full output: ${fullOutputPath}]`;
	const limit = truncatedBy === "bytes" ? ` (${formatSize(51200)} limit)` : "";
	return `\n\n[Showing lines ${totalLines - outputLines + 1}-${totalLines} of ${totalLines}${limit}. Full output: ${fullOutputPath}]`;
}
