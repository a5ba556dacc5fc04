// Child processes.

import { begin, hostInfo, sync } from "tiller:host";
import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import { signalName, signalNumber } from "node:process";
import { Readable, Writable } from "node:stream";
import { data, pathText } from "tiller:files";
import { promisify } from "node:util";

const MAX_BUFFER = 1024 * 1024;

function environment(env) {
	return Object.entries(env ?? globalThis.process.env).filter(([, value]) => value !== undefined).map(([name, value]) => [name, String(value)]);
}

/** The command as the host's request; a shell command is one string. */
function requestOf(command, args, { cwd, env, shell, argv0 } = {}) {
	let program = String(command);
	let list = [...(args ?? [])].map(String);
	if (shell) {
		const line = [program, ...list].join(" ");
		program = typeof shell === "string" ? shell : "/bin/sh";
		list = ["-c", line];
	}
	return { command: program, args: list, cwd: cwd === undefined ? globalThis.process.cwd() : pathText(cwd), env: environment(env), argv0 };
}

/** The kind of each of the three streams: `pipe`, `ignore` or `inherit`. */
function streamsOf(stdio = "pipe") {
	const list = typeof stdio === "string" ? [stdio, stdio, stdio] : [...stdio];
	return [0, 1, 2].map((at) => list[at] ?? "pipe");
}

export class ChildProcess extends EventEmitter {
	pid = undefined;
	exitCode = null;
	signalCode = null;
	killed = false;
	connected = false;
	stdin = null;
	stdout = null;
	stderr = null;
	#id;
	#cancel;
	#early = [];

	_spawn(request, [input, output, errors]) {
		this.spawnfile = request.command;
		this.spawnargs = [request.command, ...request.args];
		if (input === "pipe") this.stdin = this.#input();
		if (output === "pipe") this.stdout = this.#output();
		if (errors === "pipe") this.stderr = this.#output();
		this.stdio = [this.stdin, this.stdout, this.stderr];
		const inherited = { stdout: output === "inherit" ? globalThis.process.stdout : null, stderr: errors === "inherit" ? globalThis.process.stderr : null };
		let from;
		const { promise, cancel } = begin("child.spawn", { ...request, stdin: input === "pipe" }, undefined, (event) => {
			if (typeof event === "string") {
				from = event;
			} else if (event instanceof Uint8Array) {
				const stream = this[from] ?? inherited[from];
				if (!stream) this.#consumed(event.length);
				else if (stream.push) stream.push(Buffer.from(event.buffer, event.byteOffset, event.byteLength));
				else {
					stream.write(event);
					this.#consumed(event.length);
				}
			} else if (event.id !== undefined) {
				this.#id = event.id;
				this.pid = event.pid;
				for (const work of this.#early.splice(0)) work();
				this.emit("spawn");
			} else {
				this.exitCode = event.code;
				this.signalCode = event.signal === null ? null : signalName(event.signal);
				this.emit("exit", this.exitCode, this.signalCode);
			}
		});
		this.#cancel = cancel;
		promise.then(
			() => {
				this.stdout?.push(null);
				this.stderr?.push(null);
				this.stdin?.destroy();
				sync("child.forget", this.#id);
				setTimeout(() => this.emit("close", this.exitCode, this.signalCode), 0);
			},
			(error) => {
				this.stdout?.push(null);
				this.stderr?.push(null);
				error.spawnargs = request.args;
				this.exitCode = -2;
				this.emit("error", error);
				setTimeout(() => this.emit("close", this.exitCode, null), 0);
			},
		);
	}

	#whenThere(work) {
		if (this.#id === undefined) this.#early.push(work);
		else work();
	}
	#consumed(bytes) {
		sync("child.read", [this.#id, bytes]);
	}
	#input() {
		return new Writable({
			write: (chunk, encoding, callback) => {
				this.#whenThere(() => {
					sync("child.write", this.#id, data(chunk, encoding));
					callback();
				});
			},
			final: (callback) => {
				this.#whenThere(() => {
					sync("child.end", this.#id);
					callback();
				});
			},
		});
	}
	#output() {
		const stream = new Readable({ read() {} });
		const { emit, read } = stream;
		// Data handed to a listener no longer counts against the child's output limit.
		stream.emit = (name, ...args) => {
			if (name === "data") this.#consumed(args[0].length);
			return emit.call(stream, name, ...args);
		};
		stream.read = (size) => {
			const chunk = read.call(stream, size);
			if (chunk !== null) this.#consumed(chunk.length);
			return chunk;
		};
		return stream;
	}

	kill(signal) {
		const number = signalNumber(signal);
		if (this.exitCode !== null || this.signalCode !== null) return false;
		this.#whenThere(() => sync("child.kill", [this.#id, number]));
		if (number !== 0) this.killed = true;
		return true;
	}
	ref() {}
	unref() {}
	disconnect() {}
	send() {
		throw Object.assign(new Error("child processes have no channel inside tiller"), { code: "ERR_TILLER_UNSUPPORTED" });
	}
	[Symbol.dispose]() {
		this.kill();
	}
}

export function spawn(command, args, options) {
	const [list, more] = Array.isArray(args) ? [args, options ?? {}] : [[], args ?? {}];
	const child = new ChildProcess();
	const { signal, timeout, killSignal = "SIGTERM" } = more;
	const run = () => child._spawn(requestOf(command, list, more), streamsOf(more.stdio));
	if (signal?.aborted) {
		setTimeout(() => child.emit("error", signal.reason), 0);
		return child;
	}
	run();
	if (signal) {
		const abort = () => {
			if (child.kill(killSignal)) child.emit("error", Object.assign(new Error("The operation was aborted"), { name: "AbortError", code: "ABORT_ERR" }));
		};
		signal.addEventListener("abort", abort, { once: true });
		child.once("close", () => signal.removeEventListener("abort", abort));
	}
	if (timeout > 0) {
		const timer = setTimeout(() => child.kill(killSignal), timeout);
		child.once("close", () => clearTimeout(timer));
	}
	return child;
}

export function execFile(file, args, options, callback) {
	const rest = [args, options, callback];
	const list = Array.isArray(args) ? args : [];
	const done = rest.find((each) => typeof each === "function") ?? (() => {});
	const more = rest.find((each) => typeof each === "object" && each !== null && !Array.isArray(each)) ?? {};
	const { encoding = "utf8", maxBuffer = MAX_BUFFER, ...spawning } = more;
	const child = spawn(file, list, { ...spawning, stdio: "pipe" });
	const parts = { stdout: [], stderr: [] };
	let failure;
	for (const name of ["stdout", "stderr"]) {
		let size = 0;
		child[name].on("data", (chunk) => {
			size += chunk.length;
			parts[name].push(chunk);
			if (size > maxBuffer && !failure) {
				failure = Object.assign(new RangeError(`${name} maxBuffer length exceeded`), { code: "ERR_CHILD_PROCESS_STDIO_MAXBUFFER" });
				child.kill();
			}
		});
	}
	child.once("error", (error) => {
		failure ??= error;
	});
	child.once("close", (code, signal) => {
		const text = (list) => (encoding === "buffer" || encoding === null ? Buffer.concat(list) : Buffer.concat(list).toString(encoding));
		const [stdout, stderr] = [text(parts.stdout), text(parts.stderr)];
		const command = [file, ...list].join(" ");
		if (!failure && (code !== 0 || signal)) {
			failure = Object.assign(new Error(`Command failed: ${command}\n${stderr}`), { code, signal, killed: child.killed });
		}
		if (failure) done(Object.assign(failure, { cmd: command, stdout, stderr }), stdout, stderr);
		else done(null, stdout, stderr);
	});
	return child;
}

export function exec(command, options, callback) {
	const done = typeof options === "function" ? options : callback;
	const more = typeof options === "object" && options !== null ? options : {};
	return execFile(command, [], { ...more, shell: more.shell ?? true }, done);
}

for (const run of [exec, execFile]) {
	run[promisify.custom] = (...args) => {
		let child;
		const promise = new Promise((resolve, reject) => {
			child = run(...args, (error, stdout, stderr) => (error ? reject(error) : resolve({ stdout, stderr })));
		});
		return Object.assign(promise, { child });
	};
}

export function spawnSync(command, args, options) {
	const [list, more] = Array.isArray(args) ? [args, options ?? {}] : [[], args ?? {}];
	const request = requestOf(command, list, more);
	const [, output, errors] = streamsOf(more.stdio);
	const input = more.input === undefined ? undefined : data(more.input, more.encoding);
	const asked = { ...request, stdin: input !== undefined, timeoutMs: more.timeout || undefined, killSignal: more.killSignal === undefined ? undefined : signalNumber(more.killSignal), maxBuffer: Math.min(more.maxBuffer ?? MAX_BUFFER, 2 ** 31) };
	const text = (bytes) => (more.encoding && more.encoding !== "buffer" ? bytes.toString(more.encoding) : bytes);
	let all;
	try {
		all = Buffer.from(sync("child.spawnSync", asked, input));
	} catch (error) {
		return { pid: 0, status: null, signal: null, output: null, stdout: null, stderr: null, error: Object.assign(error, { message: error.message.replace(/^spawn/, "spawnSync"), syscall: `spawnSync ${request.command}` }) };
	}
	const end = all.indexOf(10);
	const head = JSON.parse(all.subarray(0, end).toString());
	const out = all.subarray(end + 1, end + 1 + head.stdout);
	const err = all.subarray(end + 1 + head.stdout);
	if (output === "inherit") globalThis.process.stdout.write(out);
	if (errors === "inherit") globalThis.process.stderr.write(err);
	const stdout = output === "pipe" ? text(out) : null;
	const stderr = errors === "pipe" ? text(err) : null;
	const result = { pid: head.pid, status: head.code, signal: head.signal === null ? null : signalName(head.signal), output: [null, stdout, stderr], stdout, stderr };
	if (head.error) result.error = Object.assign(new Error(`spawnSync ${request.command} ${head.error}`), { code: head.error, errno: head.error === "ETIMEDOUT" ? -110 : -105, syscall: `spawnSync ${request.command}` });
	return result;
}

function orThrow(result, command) {
	if (result.error) throw Object.assign(result.error, { status: result.status, signal: result.signal, stdout: result.stdout, stderr: result.stderr });
	if (result.status === 0) return result.stdout;
	const detail = result.stderr?.length > 0 ? `\n${result.stderr}` : "";
	throw Object.assign(new Error(`Command failed: ${command}${detail}`), { status: result.status, signal: result.signal, output: result.output, pid: result.pid, stdout: result.stdout, stderr: result.stderr });
}

export function execFileSync(file, args, options) {
	const [list, more] = Array.isArray(args) ? [args, options ?? {}] : [[], args ?? {}];
	return orThrow(spawnSync(file, list, more), [file, ...list].join(" "));
}

export function execSync(command, options = {}) {
	return orThrow(spawnSync(command, [], { ...options, shell: options.shell ?? true }), command);
}

export function fork(path, args, options) {
	const list = Array.isArray(args) ? args : [];
	return spawn(hostInfo.execPath, [path, ...list], Array.isArray(args) ? options : args);
}
