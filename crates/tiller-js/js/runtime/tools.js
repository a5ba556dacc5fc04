// The built-in tools, for extensions that wrap or change them. Without operations of its own a tool runs in
// the host; with operations it runs here.

import { begin, native, query } from "tiller:host";
import { cutNote, runOperations } from "tiller:bash";
import { DEFAULT_MAX_BYTES, formatSize, truncateHead } from "tiller:truncate";

function describe(name) {
	return query("builtinTools").find((tool) => tool.name === name) ?? { name, label: name, description: name, parameters: { type: "object", properties: {} } };
}

const text = (value, details) => ({ content: [{ type: "text", text: value }], details });

/** A tool with the host's schema. Its metadata is read when it is first accessed. */
function make(name, execute) {
	let known;
	const spec = () => (known ??= describe(name));
	return {
		name,
		get label() {
			return spec().label ?? name;
		},
		get description() {
			return spec().description;
		},
		get parameters() {
			return spec().parameters;
		},
		get promptSnippet() {
			return spec().promptSnippet;
		},
		get promptGuidelines() {
			return spec().promptGuidelines;
		},
		execute,
	};
}

/** Runs the tool in the host. */
function hosted(name, cwd) {
	return (toolCallId, args, signal) =>
		new Promise((resolve, reject) => {
			if (signal?.aborted) return reject(new Error("Operation aborted"));
			const { promise, cancel } = begin("request", {
				type: "runTool",
				name,
				toolCallId: String(toolCallId ?? ""),
				arguments: args ?? {},
				cwd: String(cwd ?? query("cwd")),
			});
			const abort = () => {
				cancel();
				reject(new Error("Operation aborted"));
			};
			signal?.addEventListener("abort", abort, { once: true });
			promise.then(resolve, reject).finally(() => signal?.removeEventListener("abort", abort));
		});
}

function placeOf(cwd, path) {
	const { resolve } = native.importNow("node:path");
	const { homedir } = native.importNow("node:os");
	return resolve(cwd, String(path).replace(/^@/, "").replace(/^~(?=\/|$)/, homedir()));
}

export function createLocalBashOperations({ shellPath } = {}) {
	return {
		exec(command, cwd, { onData, signal, timeout, env } = {}) {
			const { spawn } = native.importNow("node:child_process");
			return new Promise((resolve, reject) => {
				const child = spawn(shellPath ?? "/bin/bash", ["-c", command], { cwd, env: env ?? globalThis.process.env, stdio: ["ignore", "pipe", "pipe"] });
				let timedOut = false;
				const kill = () => child.kill("SIGKILL");
				const timer = timeout > 0 ? setTimeout(() => { timedOut = true; kill(); }, timeout * 1000) : undefined;
				signal?.addEventListener("abort", kill, { once: true });
				child.stdout.on("data", (data) => onData?.(data));
				child.stderr.on("data", (data) => onData?.(data));
				child.on("error", reject);
				child.on("close", (code) => {
					clearTimeout(timer);
					signal?.removeEventListener("abort", kill);
					if (signal?.aborted) reject(new Error("aborted"));
					else if (timedOut) reject(new Error(`timeout:${timeout}`));
					else resolve({ exitCode: code });
				});
			});
		},
	};
}

export function createBashTool(cwd = query("cwd"), { operations, commandPrefix, shellPath, spawnHook } = {}) {
	if (!operations && !commandPrefix && !shellPath && !spawnHook) return make("bash", hosted("bash", cwd));
	const runs = operations ?? createLocalBashOperations({ shellPath });
	return make("bash", async (_id, { command, timeout }, signal, onUpdate) => {
		let call = { command: commandPrefix ? `${commandPrefix}\n${command}` : command, cwd, env: { ...globalThis.process.env } };
		if (spawnHook) call = { ...call, ...(await spawnHook(call)) };
		const through = { exec: (command, folder, options) => runs.exec(command, folder, { ...options, env: call.env }) };
		let shown = "";
		const onData = (output) => {
			shown = output;
			onUpdate?.(text(output));
		};
		let result;
		try {
			result = await runOperations(through, call, { signal, timeout, onData });
		} catch (error) {
			const late = /^timeout:(.*)$/.exec(error.message);
			const status = error.message === "aborted" ? "Command aborted" : late ? `Command timed out after ${late[1]} seconds` : error.message;
			throw new Error(shown ? `${shown}\n\n${status}` : status);
		}
		let output = result.output || "(no output)";
		if (result.truncated) output += cutNote(result);
		if (result.exitCode) throw new Error(`${output}\n\nCommand exited with code ${result.exitCode}`);
		return text(output, result.truncated ? { truncation: result.truncation, fullOutputPath: result.fullOutputPath } : undefined);
	});
}

export function createReadTool(cwd = query("cwd"), { operations } = {}) {
	if (!operations) return make("read", hosted("read", cwd));
	return make("read", async (_id, { path, offset, limit }) => {
		const place = placeOf(cwd, path);
		await operations.access?.(place);
		const mimeType = await operations.detectImageMimeType?.(place);
		const bytes = await operations.readFile(place);
		if (mimeType) {
			return { content: [{ type: "text", text: `Read image file [${mimeType}]` }, { type: "image", data: Buffer.from(bytes).toString("base64"), mimeType }], details: undefined };
		}
		const lines = (typeof bytes === "string" ? bytes : new TextDecoder().decode(bytes)).split("\n");
		const first = Math.max(1, offset ?? 1);
		if (first > lines.length) throw new Error(`Offset ${offset} is beyond end of file (${lines.length} lines total)`);
		const wanted = lines.slice(first - 1, limit === undefined ? undefined : first - 1 + limit);
		const cut = truncateHead(wanted.join("\n"));
		if (cut.firstLineExceedsLimit) {
			const size = formatSize(new TextEncoder().encode(wanted[0]).length);
			return text(`[Line ${first} is ${size}, exceeds ${formatSize(DEFAULT_MAX_BYTES)} limit. Use bash: sed -n '${first}p' ${path} | head -c ${DEFAULT_MAX_BYTES}]`, { truncation: cut });
		}
		const last = first + cut.outputLines - 1;
		if (cut.truncated) {
			const by = cut.truncatedBy === "bytes" ? ` (${formatSize(DEFAULT_MAX_BYTES)} limit)` : "";
			return text(`${cut.content}\n\n[Showing lines ${first}-${last} of ${lines.length}${by}. Use offset=${last + 1} to continue.]`, { truncation: cut });
		}
		const left = lines.length - (first - 1) - wanted.length;
		return text(left > 0 ? `${cut.content}\n\n[${left} more lines in file. Use offset=${first + wanted.length} to continue.]` : cut.content);
	});
}

export function createWriteTool(cwd = query("cwd"), { operations } = {}) {
	if (!operations) return make("write", hosted("write", cwd));
	return make("write", async (_id, { path, content }) => {
		const place = placeOf(cwd, path);
		await operations.mkdir?.(native.importNow("node:path").dirname(place));
		await operations.writeFile(place, content);
		return text(`Successfully wrote to ${path}`);
	});
}

export function createEditTool(cwd = query("cwd"), { operations } = {}) {
	if (!operations) return make("edit", hosted("edit", cwd));
	return make("edit", async (_id, args) => {
		const { path } = args;
		const place = placeOf(cwd, path);
		await operations.access?.(place);
		const read = await operations.readFile(place);
		const before = typeof read === "string" ? read : new TextDecoder("utf-8", { ignoreBOM: true }).decode(read);
		const ending = before.includes("\r\n") ? "\r\n" : "\n";
		const plain = before.replace(/\r\n/g, "\n");
		const after = edited(path, plain, args.edits ?? [{ oldText: args.oldText, newText: args.newText }]);
		await operations.writeFile(place, ending === "\n" ? after : after.replace(/\n/g, "\r\n"));
		return text(`Successfully replaced ${(args.edits ?? [1]).length} block(s) in ${path}.`, changes(plain, after));
	});
}

/** All edits are matched against the original text, so that none depends on another. */
function edited(path, plain, edits) {
	if (edits.length === 0) throw new Error("Edit tool input is invalid. edits must contain at least one replacement.");
	const one = edits.length === 1;
	const found = edits.map(({ oldText, newText }, at) => {
		if (!oldText) throw new Error(one ? `oldText must not be empty in ${path}.` : `edits[${at}].oldText must not be empty in ${path}.`);
		const wanted = oldText.replace(/\r\n/g, "\n");
		const count = plain.split(wanted).length - 1;
		if (count === 0) throw new Error(one ? `Could not find the exact text in ${path}. The old text must match exactly including all whitespace and newlines.` : `Could not find edits[${at}] in ${path}. The oldText must match exactly including all whitespace and newlines.`);
		if (count > 1) throw new Error(one ? `Found ${count} occurrences of the text in ${path}. The text must be unique. Please provide more context to make it unique.` : `Found ${count} occurrences of edits[${at}] in ${path}. Each oldText must be unique. Please provide more context to make it unique.`);
		const start = plain.indexOf(wanted);
		return { at, start, end: start + wanted.length, newText: newText.replace(/\r\n/g, "\n") };
	});
	found.sort((a, b) => a.start - b.start);
	for (const [place, edit] of found.entries()) {
		const next = found[place + 1];
		if (next && edit.end > next.start) throw new Error(`edits[${edit.at}] and edits[${next.at}] overlap in ${path}. Merge them into one edit or target disjoint regions.`);
	}
	let after = plain;
	for (const { start, end, newText } of found.toReversed()) after = after.slice(0, start) + newText + after.slice(end);
	if (after === plain) throw new Error(`No changes made to ${path}. The replacement produced identical content. This might indicate an issue with special characters or the text not existing as expected.`);
	return after;
}

/** The lines that differ, as one block between the equal beginning and end. */
function changes(before, after) {
	const [a, b] = [before.split("\n"), after.split("\n")];
	let head = 0;
	while (head < a.length && head < b.length && a[head] === b[head]) head++;
	let tail = 0;
	while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
	const from = Math.max(0, head - 4);
	const width = String(Math.max(a.length, b.length)).length;
	const line = (sign, number, value) => `${sign}${String(number).padStart(width)} ${value}`;
	const diff = [
		...a.slice(from, head).map((value, at) => line(" ", from + at + 1, value)),
		...a.slice(head, a.length - tail).map((value, at) => line("-", head + at + 1, value)),
		...b.slice(head, b.length - tail).map((value, at) => line("+", head + at + 1, value)),
		...a.slice(a.length - tail, a.length - tail + 4).map((value, at) => line(" ", a.length - tail + at + 1, value)),
	];
	return { diff: diff.join("\n"), firstChangedLine: head + 1 };
}

export const createGrepTool = (cwd = query("cwd")) => make("grep", hosted("grep", cwd));

export function createFindTool(cwd = query("cwd"), { operations } = {}) {
	if (!operations?.glob) return make("find", hosted("find", cwd));
	return make("find", async (_id, { pattern, path = ".", limit = 1000 }) => {
		const { relative } = native.importNow("node:path");
		const place = placeOf(cwd, path);
		if (!(await operations.exists(place))) throw new Error(`Path not found: ${place}`);
		const found = await operations.glob(pattern, place, { ignore: ["**/node_modules/**", "**/.git/**"], limit });
		if (found.length === 0) return text("No files found matching pattern");
		const shown = found.map((each) => (each.startsWith("/") ? relative(place, each) : each)).join("\n");
		if (found.length < limit) return text(shown);
		return text(`${shown}\n\n[${limit} results limit reached. Use limit=${limit * 2} for more, or refine pattern]`, { resultLimitReached: limit });
	});
}

export function createLsTool(cwd = query("cwd"), { operations } = {}) {
	if (!operations) return make("ls", hosted("ls", cwd));
	return make("ls", async (_id, { path = ".", limit = 500 }) => {
		const place = placeOf(cwd, path);
		if (!(await operations.exists(place))) throw new Error(`Path not found: ${place}`);
		const shown = [];
		for (const name of (await operations.readdir(place)).toSorted((a, b) => a.toLowerCase().localeCompare(b.toLowerCase()))) {
			const stat = await operations.stat(`${place}/${name}`);
			shown.push(stat.isDirectory() ? `${name}/` : name);
		}
		if (shown.length === 0) return text("(empty directory)");
		if (shown.length <= limit) return text(shown.join("\n"));
		return text(`${shown.slice(0, limit).join("\n")}\n\n[${limit} entries limit reached. Use limit=${limit * 2} for more]`, { entryLimitReached: limit });
	});
}

export const createBashToolDefinition = createBashTool;
export const createReadToolDefinition = createReadTool;
export const createWriteToolDefinition = createWriteTool;
export const createEditToolDefinition = createEditTool;
export const createGrepToolDefinition = createGrepTool;
export const createFindToolDefinition = createFindTool;
export const createLsToolDefinition = createLsTool;
export const createCodingTools = (cwd) => [createReadTool(cwd), createBashTool(cwd), createEditTool(cwd), createWriteTool(cwd)];
export const createReadOnlyTools = (cwd) => [createReadTool(cwd), createGrepTool(cwd), createFindTool(cwd), createLsTool(cwd)];

const queues = new Map();

/** Runs `work` exclusively among those for the same file. */
export async function withFileMutationQueue(path, work) {
	const { realpathSync } = native.importNow("node:fs");
	let key = String(path);
	try {
		key = realpathSync(key);
	} catch {
		// A file that does not exist yet has no real path.
	}
	const before = queues.get(key) ?? Promise.resolve();
	const mine = before.then(work, work);
	const settled = mine.then(() => {}, () => {});
	queues.set(key, settled);
	try {
		return await mine;
	} finally {
		if (queues.get(key) === settled) queues.delete(key);
	}
}
