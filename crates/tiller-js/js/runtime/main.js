// The entry point. The host calls only the functions that this module exports.

import "tiller:globals";
import { deliver, hostInfo, native, parse, runAs, stringify, sync } from "tiller:host";
import { describe, noticeRejection, report, reportRejections } from "tiller:errors";
import { fire as fireTimer } from "tiller:timers";
import { PartialMessage } from "tiller:partial-message";
import { handlersOf, runHandler, runHandlers } from "tiller:hooks";
import { contextOf, runSignal } from "tiller:context";
import { watchers } from "tiller:ui";
import { dispatch } from "tiller:bus";
import { refreshStoredModels } from "tiller:model-refresh";
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
		await refreshStoredModels();
	},
	flags: setFlags,
	renew: () => blockHooksUntil(startOver()),
	retire,
	ask: runHook,
	emit_and_wait: (event) => dispatchEvent(event),
	prepare: prepareArguments,
	tool: runTool,
	bash: runBash,
	command: runCommand,
	stream: runStream,
	signIn,
	refreshModels,

	restore: (input) => blockHooksUntil(restore(input)),
};

async function startOver() {
	const failed = await renew();
	await refreshStoredModels();
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
	await dispatchEvent({ type: "session_start", reason: "reload" });
}

// Set while extensions start over. Hooks wait for it: a guard that is not registered yet would let everything
// through.
let restarting;

function blockHooksUntil(work) {
	const done = () => {
		restarting = undefined;
	};
	restarting = work.then(done, done);
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

// Events are handled one after another: the handlers of an earlier event finish before a later one is
// dispatched, within a time limit.
let eventQueue;

/** Called by the host for an event. Not awaited. */
export function emit(json) {
	const received = parse(json);
	if (received.type === "tiller:bus") {
		dispatch(received.channel, received.data);
		return;
	}
	const event = toHandlerEvent(received);
	if (event === undefined) return;
	if (eventQueue === undefined) eventQueue = clearWhenDone(dispatchEvent(event));
	else eventQueue = clearWhenDone(eventQueue.then(() => dispatchEvent(event)));
}

/** The partial assistant message. */
let partialMessage;

/** The event as handlers see it, or nothing if it is not for them. */
function toHandlerEvent(event) {
	if (event.type !== "message_update") return event;
	if (event.begins) {
		partialMessage = new PartialMessage();
		partialMessage.apply({ type: "start", partial: event.begins });
	}
	const step = partialMessage?.apply(event.step);
	return step && { type: "message_update", message: step.partial, assistantMessageEvent: step };
}

function clearWhenDone(promise) {
	const done = promise.then(() => {
		if (eventQueue === done) eventQueue = undefined;
	});
	return done;
}

async function dispatchEvent(event) {
	for (const handler of handlersOf(event.type)) {
		try {
			const result = runHandler(handler, event);
			if (typeof result?.then === "function") await result;
		} catch (error) {
			report(handler.extension.path, event.type, error);
		}
	}
}

watchers.notify = (event) => void dispatchEvent(event);

/** Waits for earlier events, but no longer than `eventWaitMs`, because a caller waits for the hook. */
function waitForEvents() {
	return new Promise((resolve) => {
		const timer = setTimeout(resolve, hostInfo.eventWaitMs);
		eventQueue.then(() => {
			clearTimeout(timer);
			resolve();
		});
	});
}

async function runHook({ name, event, so_far: soFar, extensions: [first, last] }, id) {
	if (restarting !== undefined) await restarting;
	if (eventQueue !== undefined) await waitForEvents();
	let signal;
	if (name === "session_before_compact" || name === "session_before_tree") {
		const controller = new AbortController();
		aborts.set(id, controller);
		signal = controller.signal;
	}
	return runHandlers(name, event, soFar, handlersOf(name, first, last), signal);
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
	return runAs(extension, () => tool.prepareArguments(params));
}

async function runTool({ extension: number, name, params, toolCallId }, id) {
	const extension = extensionOf(number);
	const tool = toolOf(extension, name);
	const controller = new AbortController();
	aborts.set(id, controller);
	let isDone = false;
	const onUpdate = (partial) => {
		if (!isDone && partial) native.progress(id, stringify(partial));
	};
	return runAs(extension, async () => {
		try {
			const result = await tool.execute(toolCallId, params, controller.signal, onUpdate, contextOf(extension));
			if (typeof result !== "object" || result === null) throw new Error(`Tool ${name} returned no result`);
			return result;
		} finally {
			isDone = true;
		}
	});
}

async function runBash({ operations: { extension: number, key }, command, cwd }, id) {
	const extension = extensionOf(number);
	const controller = new AbortController();
	aborts.set(id, controller);
	const { runGiven } = await import("tiller:bash");
	const onOutput = (piece) => native.progress(id, piece);
	return runAs(extension, () => runGiven(key, { command, cwd }, controller.signal, onOutput));
}

async function runCommand({ extension: number, name, args }) {
	const extension = extensionOf(number);
	const command = extension.commands.get(name);
	if (!command) throw new Error(`Command ${name} not found`);
	await runAs(extension, () => command.handler(args, contextOf(extension).command));
}

async function runStream({ extension: number, provider, ...request }, id) {
	const extension = extensionOf(number);
	const { answer } = await import("tiller:providers");
	const controller = new AbortController();
	aborts.set(id, controller);
	const onEvent = (event) => native.progress(id, stringify(event));
	await runAs(extension, () => answer(extension.providers.get(provider), provider, request, controller.signal, onEvent));
	return null;
}

async function signIn({ extension: number, provider, credential }, id) {
	const extension = extensionOf(number);
	const { keyOf } = await import("tiller:providers");
	const controller = new AbortController();
	aborts.set(id, controller);
	return runAs(extension, () => keyOf(extension.providers.get(provider), credential, controller.signal));
}

async function refreshModels(options, id) {
	const { refreshAll } = await import("tiller:model-refresh");
	const controller = new AbortController();
	aborts.set(id, controller);
	return refreshAll(options ?? {}, controller.signal);
}
