// `process`. The engine runs inside tiller's process, so parts of it are stubs.

import { hostInfo, log, native, query, sync } from "tiller:host";
import { EventEmitter } from "node:events";

const signals = {
	SIGHUP: 1,
	SIGINT: 2,
	SIGQUIT: 3,
	SIGKILL: 9,
	SIGUSR1: 10,
	SIGUSR2: 12,
	SIGPIPE: 13,
	SIGALRM: 14,
	SIGTERM: 15,
	SIGCHLD: 17,
	SIGCONT: 18,
	SIGSTOP: 19,
	SIGTSTP: 20,
	SIGWINCH: 28,
};

/** The number of a signal, given by number or name. */
export function signalNumber(signal = "SIGTERM") {
	if (typeof signal === "number") return signal;
	const number = signals[signal];
	if (number !== undefined) return number;
	const error = new TypeError(`Unknown signal: ${signal}`);
	error.code = "ERR_UNKNOWN_SIGNAL";
	throw error;
}

export function signalName(number) {
	return Object.keys(signals).find((name) => signals[name] === number) ?? null;
}

/** A standard stream: writes go to the log, line by line. */
class Written extends EventEmitter {
	isTTY = false;
	writable = true;
	columns = 80;
	rows = 24;
	#line = "";
	constructor(fd, level) {
		super();
		this.fd = fd;
		this.level = level;
	}
	write(chunk, encoding, callback) {
		const lines = (this.#line + (typeof chunk === "string" ? chunk : new TextDecoder().decode(chunk))).split("\n");
		this.#line = lines.pop();
		for (const line of lines) log(this.level, line);
		const done = typeof encoding === "function" ? encoding : callback;
		if (typeof done === "function") queueMicrotask(done);
		return true;
	}
	end(chunk, encoding, callback) {
		if (chunk !== undefined && typeof chunk !== "function") this.write(chunk, encoding, callback);
	}
	getWindowSize() {
		return [this.columns, this.rows];
	}
	hasColors() {
		return false;
	}
	getColorDepth() {
		return 1;
	}
	cork() {}
	uncork() {}
	destroy() {}
	cursorTo() {}
	clearLine() {}
	moveCursor() {}
}

/** Standard input, which is always empty. */
class Silent extends EventEmitter {
	fd = 0;
	isTTY = false;
	isRaw = false;
	readable = true;
	setRawMode() {
		return this;
	}
	setEncoding() {
		return this;
	}
	resume() {
		return this;
	}
	pause() {
		return this;
	}
	read() {
		return null;
	}
	ref() {}
	unref() {}
	destroy() {}
	async *[Symbol.asyncIterator]() {}
}

function refuse(name) {
	return () => {
		const error = new Error(`process.${name}() is not available to extensions; ctx.shutdown() asks for the end`);
		error.code = "ERR_TILLER_UNSUPPORTED";
		throw error;
	};
}

let folder;

export const process = Object.assign(new EventEmitter(), {
	title: "tiller",
	version: "v24.0.0",
	versions: { node: "24.0.0", v8: "0.0.0", modules: "137", tiller: hostInfo.version },
	release: { name: "node" },
	platform: hostInfo.platform,
	arch: hostInfo.arch,
	pid: hostInfo.pid,
	ppid: 0,
	env: hostInfo.env,
	argv: [hostInfo.execPath],
	argv0: hostInfo.execPath,
	execArgv: [],
	execPath: hostInfo.execPath,
	exitCode: undefined,
	features: { typescript: "transform" },
	config: { variables: {} },
	stdout: new Written(1, "info"),
	stderr: new Written(2, "error"),
	stdin: new Silent(),
	cwd: () => folder ?? query("cwd"),
	chdir(path) {
		folder = String(path);
	},
	exit: refuse("exit"),
	reallyExit: refuse("reallyExit"),
	abort: refuse("abort"),
	kill(pid, signal) {
		sync("os.kill", [Number(pid), signalNumber(signal)]);
		return true;
	},
	nextTick(callback, ...args) {
		queueMicrotask(() => callback(...args));
	},
	hrtime: Object.assign(
		(since) => {
			const now = native.clock();
			let [seconds, nanos] = [Math.floor(now / 1000), Math.round((now % 1000) * 1e6)];
			if (since) {
				seconds -= since[0];
				nanos -= since[1];
				if (nanos < 0) {
					seconds--;
					nanos += 1e9;
				}
			}
			return [seconds, nanos];
		},
		{ bigint: () => BigInt(Math.round(native.clock() * 1e6)) },
	),
	uptime: () => native.clock() / 1000,
	memoryUsage: Object.assign(() => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }), { rss: () => 0 }),
	cpuUsage: () => ({ user: Math.round(native.clock() * 1000), system: 0 }),
	resourceUsage: () => ({ userCPUTime: 0, systemCPUTime: 0, maxRSS: 0 }),
	getuid: () => sync("os.info").uid,
	geteuid: () => sync("os.info").uid,
	getgid: () => sync("os.info").gid,
	getegid: () => sync("os.info").gid,
	umask: () => 0o022,
	emitWarning(warning) {
		log("warn", typeof warning === "string" ? warning : (warning?.message ?? String(warning)));
	},
	binding: refuse("binding"),
	getBuiltinModule(name) {
		try {
			return native.importNow(`node:${String(name).replace(/^node:/, "")}`).default;
		} catch {
			return undefined;
		}
	},
	setUncaughtExceptionCaptureCallback() {},
	hasUncaughtExceptionCaptureCallback: () => false,
	loadEnvFile() {},
	allowedNodeEnvironmentFlags: new Set(),
	report: {},
	[Symbol.toStringTag]: "process",
});

const { env, argv, platform, arch, pid, version, versions, execPath, stdout, stderr, stdin } = process;
export { env, argv, platform, arch, pid, version, versions, execPath, stdout, stderr, stdin };
const { cwd, chdir, exit, kill, nextTick, hrtime, uptime, memoryUsage, emitWarning, getuid } = process;
export { cwd, chdir, exit, kill, nextTick, hrtime, uptime, memoryUsage, emitWarning, getuid };
export default process;
