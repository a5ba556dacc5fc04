// Describes and reports errors. Anything can be thrown, including an object whose getters throw.

import { native } from "tiller:host";

/** Matches errors about features that this engine lacks. */
const lacking = /(?:cannot run|not supported) inside tiller/;

/** `{message, stack}` of a thrown value, and `lacks` if it is about a missing feature. */
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

/** Reports an extension's error to the host. */
export function report(path, event, thrown) {
	const { message, stack } = describe(thrown);
	native.report(path, event, message, stack);
}

const unhandled = new Map();

/** A promise was rejected, or a handler was attached to it afterwards. */
export function noticeRejection(promise, reason, isHandled) {
	if (isHandled) unhandled.delete(promise);
	else unhandled.set(promise, { reason, extension: native.extension() });
}

/** Reports rejections without a handler at the end of a turn. */
export function reportRejections(pathOf) {
	for (const { reason, extension } of unhandled.values()) {
		report(pathOf(extension) ?? "<runtime>", "unhandled_rejection", reason);
	}
	unhandled.clear();
}
