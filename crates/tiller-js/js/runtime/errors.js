// What was thrown, in words. Anything can be thrown, a thing whose getters throw included.

import { native } from "tiller:host";

/** What says that something cannot be done in this engine. */
const lacking = /(?:cannot run|not supported) inside tiller/;

/** `{message, stack}` of whatever it is, and `lacks` if it is about something that is not here. */
export function describe(thrown) {
	let message;
	let stack;
	let lacks;
	try {
		if (thrown !== null && typeof thrown === "object" && typeof thrown.message === "string") {
			message = thrown.message;
			if (typeof thrown.stack === "string") stack = thrown.stack;
			if (typeof thrown.lacks === "string") lacks = thrown.lacks;
		} else {
			message = String(thrown);
		}
	} catch {
		message = "something was thrown that cannot be shown";
	}
	if (/^'?WebAssembly'? is not defined$/.test(message)) message = "WebAssembly cannot run inside tiller";
	if (lacking.test(message)) lacks ??= message;
	return { message: message.toWellFormed(), stack: stack?.toWellFormed(), lacks: lacks?.toWellFormed() };
}

/** Tells the host that an extension failed. */
export function report(path, event, thrown) {
	const { message, stack } = describe(thrown);
	native.report(path, event, message, stack);
}

const unhandled = new Map();

/** A promise was rejected, or somebody has come to handle that after all. */
export function noticeRejection(promise, reason, isHandled) {
	if (isHandled) unhandled.delete(promise);
	else unhandled.set(promise, { reason, extension: native.extension() });
}

/** Reports rejections that nobody has handled by the end of a turn. */
export function reportRejections(pathOf) {
	for (const { reason, extension } of unhandled.values()) {
		report(pathOf(extension) ?? "<runtime>", "unhandled_rejection", reason);
	}
	unhandled.clear();
}
