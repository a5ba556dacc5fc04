// The entry point. The host calls only the functions that this module exports.

import "tiller:globals";
import { as, deliver, facts, native, parse, stringify, sync } from "tiller:host";
import { describe, noticeRejection, report, reportRejections } from "tiller:errors";
import { fire as fireTimer } from "tiller:timers";
import { Growing } from "tiller:growing";
import { hooks } from "tiller:hooks";
import { contextOf, live, runSignal } from "tiller:context";
import { watchers } from "tiller:ui";
import { hearOn } from "tiller:bus";
import { lookAround } from "tiller:catalogue";
import { bind, extensions, loadExtension, renew, retire, setFlags } from "tiller:extensions";

export { deliver, runSignal };

Object.defineProperty(globalThis, "__tillerRejection", { value: noticeRejection });

/** The abort function of each pending call, by number. */
const aborts = new Map();

const entries = {
	load({ number, path, strictly }, id) {
		let isWanted = true;
		aborts.set(id, {
			abort() {
				isWanted = false;
			},
		});
		return loadExtension(number, path, strictly, () => isWanted);
	},
	async bind() {
		bind();
		await lookAround();
	},
	flags: setFlags,
	renew: () => unsettled(startOver()),
	retire,
	ask: askHook,
	emit_and_wait: (event) => tell(event),
	prepare: prepareArguments,
	tool: runTool,
	bash: runBash,
	command: runCommand,
	stream: runStream,
	signIn,
	refreshModels,

	restore: (input) => unsettled(restore(input)),
};

async function startOver() {
	const failed = await renew();
	await lookAround();
	return failed;
}

/** Replays the configuring calls to a restarted engine. */
async function restore({ steps, guards }) {
	for (const { entry, input } of steps) {
		try {
			await entries[entry](input, 0);
		} catch (error) {
			report(input?.path ?? "<runtime>", entry, error);
		}
	}
	const back = extensions.map((extension) => extension.path);
	sync("lostGuards", guards.filter((path) => !back.includes(path)));
	await tell({ type: "session_start", reason: "reload" });
}

// Set while extensions start over. Hooks wait for it: a guard that is not registered yet would let everything
// through.
let settled;

function unsettled(work) {
	const done = () => {
		settled = undefined;
	};
	settled = work.then(done, done);
	return work;
}

/**
 * `token` has to live as long as something can answer: the host fails the call when it is freed. Only
 * an engine inside tiller is given one.
 */
export function call(id, entry, json, token) {
	let result;
	try {
		result = entries[entry](parse(json), id);
	} catch (error) {
		fail(id, error);
		return;
	}
	if (typeof result?.then === "function") {
		result.then((value) => reply(id, value, token), (error) => fail(id, error, token));
	} else reply(id, result);
}

function reply(id, value, _token) {
	aborts.delete(id);
	let text;
	try {
		text = stringify(value) ?? "null";
	} catch (error) {
		fail(id, error);
		return;
	}
	native.reply(id, text);
}

function fail(id, thrown, _token) {
	aborts.delete(id);
	const { message, stack, lacks } = describe(thrown);
	native.fail(id, message, stack, lacks);
}

export function abort(id) {
	aborts.get(id)?.abort();
	aborts.delete(id);
}

export function fire(id) {
	try {
		fireTimer(id);
	} catch (error) {
		report(pathOf(native.extension()) ?? "<runtime>", "timer", error);
	}
}

export function rejections() {
	reportRejections(pathOf);
}

function pathOf(number) {
	return extensions.find((extension) => extension.number === number)?.path;
}

/** Current handlers of an event, in the order they were registered. */
function handlersOf(name, first = 0, last = Infinity) {
	const found = [];
	for (const extension of extensions) {
		if (extension.number < first || extension.number > last) continue;
		for (const handle of extension.handlers.get(name) ?? []) found.push({ extension, handle });
	}
	return found;
}

function run({ extension, handle }, event, context) {
	return as(extension, () => handle(event, context ?? contextOf(extension)));
}

// Events are handled one after another: the handlers of an earlier event finish before a later one is
// dispatched, within a time limit.
let tail;

/** Called by the host for an event. Not awaited. */
export function emit(json) {
	const told = parse(json);
	if (told.type === "tiller:bus") {
		hearOn(told.channel, told.data);
		return;
	}
	const event = shown(told);
	if (event === undefined) return;
	if (tail === undefined) tail = settle(tell(event));
	else tail = settle(tail.then(() => tell(event)));
}

/** The partial assistant message. */
let growing;

/** The event as handlers see it, or nothing if it is not for them. */
function shown(event) {
	if (event.type !== "message_update") return event;
	if (event.begins) {
		growing = new Growing();
		growing.take({ type: "start", partial: event.begins });
	}
	const step = growing?.take(event.step);
	return step && { type: "message_update", message: step.partial, assistantMessageEvent: step };
}

function settle(promise) {
	const settled = promise.then(() => {
		if (tail === settled) tail = undefined;
	});
	return settled;
}

async function tell(event) {
	for (const handler of handlersOf(event.type)) {
		try {
			const result = run(handler, event);
			if (typeof result?.then === "function") await result;
		} catch (error) {
			report(handler.extension.path, event.type, error);
		}
	}
}

watchers.tell = (event) => void tell(event);

/** Waits for earlier events, but no longer than `patience`, because a caller waits for the hook. */
function caughtUp() {
	return new Promise((resolve) => {
		const timer = setTimeout(resolve, facts.patienceMs);
		tail.then(() => {
			clearTimeout(timer);
			resolve();
		});
	});
}

async function askHook({ name, event: asked, so_far: soFar, extensions: [first, last] }, id) {
	if (settled !== undefined) await settled;
	if (tail !== undefined) await caughtUp();
	const handlers = handlersOf(name, first, last);
	if (handlers.length === 0) return soFar ?? { outcome: {} };
	const event = { type: name, ...asked };
	if (name === "session_before_compact" || name === "session_before_tree") {
		const controller = new AbortController();
		aborts.set(id, controller);
		event.signal = controller.signal;
	}
	const files = event.preparation?.fileOps;
	for (const kind in files) files[kind] = new Set(files[kind]);
	const reduced = name === "project_trust" ? (handler) => contextOf(handler.extension).reduced : () => undefined;
	const strictly = async (handler, event) => run(handler, event, reduced(handler));
	const complain = (handler, error) => report(handler.extension.path, name, error);
	const call = async (handler, event) => {
		try {
			return await run(handler, event, reduced(handler));
		} catch (error) {
			complain(handler, error);
			return undefined;
		}
	};
	return hooks[name](event, handlers, soFar, call, live, strictly, complain);
}

function extensionOf(number) {
	const extension = extensions.find((extension) => extension.number === number);
	if (!extension) throw new Error("the extension is no longer loaded");
	return extension;
}

function toolOf(extension, name) {
	const tool = extension.tools.get(name);
	if (!tool) throw new Error(`Tool ${name} not found`);
	return tool;
}

/** Calls a tool's `prepareArguments` before the arguments are checked. */
function prepareArguments({ extension: number, name, params }) {
	const extension = extensionOf(number);
	const tool = toolOf(extension, name);
	return as(extension, () => tool.prepareArguments(params));
}

async function runTool({ extension: number, name, params, toolCallId }, id) {
	const extension = extensionOf(number);
	const tool = toolOf(extension, name);
	const controller = new AbortController();
	aborts.set(id, controller);
	let settled = false;
	const onUpdate = (partial) => {
		if (!settled && partial) native.progress(id, stringify(partial));
	};
	return as(extension, async () => {
		try {
			const result = await tool.execute(toolCallId, params, controller.signal, onUpdate, contextOf(extension));
			if (typeof result !== "object" || result === null) throw new Error(`Tool ${name} returned no result`);
			return result;
		} finally {
			settled = true;
		}
	});
}

async function runBash({ operations: { extension: number, key }, command, cwd }, id) {
	const extension = extensionOf(number);
	const controller = new AbortController();
	aborts.set(id, controller);
	const { runGiven } = await import("tiller:bash");
	const tell = (piece) => native.progress(id, piece);
	return as(extension, () => runGiven(key, { command, cwd }, controller.signal, tell));
}

async function runCommand({ extension: number, name, args }) {
	const extension = extensionOf(number);
	const command = extension.commands.get(name);
	if (!command) throw new Error(`Command ${name} not found`);
	await as(extension, () => command.handler(args, contextOf(extension).command));
}

async function runStream({ extension: number, provider, ...asked }, id) {
	const extension = extensionOf(number);
	const { answer } = await import("tiller:providers");
	const controller = new AbortController();
	aborts.set(id, controller);
	const tell = (event) => native.progress(id, stringify(event));
	await as(extension, () => answer(extension.providers.get(provider), provider, asked, controller.signal, tell));
	return null;
}

async function signIn({ extension: number, provider, credential }, id) {
	const extension = extensionOf(number);
	const { keyOf } = await import("tiller:providers");
	const controller = new AbortController();
	aborts.set(id, controller);
	return as(extension, () => keyOf(extension.providers.get(provider), credential, controller.signal));
}

async function refreshModels(options, id) {
	const { refreshAll } = await import("tiller:catalogue");
	const controller = new AbortController();
	aborts.set(id, controller);
	return refreshAll(options ?? {}, controller.signal);
}
