// What was thrown, in words. Anything can be thrown, a thing whose getters throw included.

import { native } from "tiller:host";

/** `{message, stack}` of whatever it is. */
export function describe(thrown) {
	let message;
	let stack;
	try {
		if (thrown !== null && typeof thrown === "object" && typeof thrown.message === "string") {
			message = thrown.message;
			if (typeof thrown.stack === "string") stack = thrown.stack;
		} else {
			message = String(thrown);
		}
	} catch {
		message = "something was thrown that cannot be shown";
	}
	return { message: message.toWellFormed(), stack: stack?.toWellFormed() };
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
