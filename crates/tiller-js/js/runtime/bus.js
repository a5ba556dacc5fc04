// `pi.events`: the bus that all extensions share. Listeners in this engine are called at once with the same
// object; listeners in other engines receive JSON, asynchronously.

import { log, runNestedAs, stringify, sync } from "tiller:host";
import { describe } from "tiller:errors";

const channels = new Map();
/** Channels with data that could not be serialized; reported once each. */
const reportedChannels = new Set();

export function emitOn(channel, data) {
	dispatch(channel, data);
	if (sync("bus.hasListener", channel)) sendToOtherEngines(channel, data);
}

/** Calls the listeners of a channel, for events of this engine or of another. */
export function dispatch(channel, data) {
	for (const listener of [...(channels.get(channel) ?? [])]) {
		try {
			const result = runNestedAs(listener.extension, () => listener.handle(data));
			if (typeof result?.then === "function") result.then(undefined, (error) => failed(channel, error));
		} catch (error) {
			failed(channel, error);
		}
	}
}

export function listenOn(extension, channel, handle) {
	const listener = { extension, handle };
	if (!channels.has(channel)) {
		channels.set(channel, new Set());
		sync("bus.listen", [channel, true]);
	}
	channels.get(channel).add(listener);
	const drop = () => {
		extension.subscriptions.delete(drop);
		const listeners = channels.get(channel);
		if (!listeners?.delete(listener) || listeners.size > 0) return;
		channels.delete(channel);
		sync("bus.listen", [channel, false]);
	};
	extension.subscriptions.add(drop);
	return drop;
}

function failed(channel, error) {
	log("error", `Event handler error (${channel}): ${describe(error).message}`);
}

function sendToOtherEngines(channel, data) {
	let text;
	try {
		text = data === undefined ? undefined : stringify(data, requireJson);
	} catch (error) {
		if (reportedChannels.has(channel)) return;
		reportedChannels.add(channel);
		log("warn", `pi.events, ${channel}: not sent to extensions in other engines: ${describe(error).message}`);
		return;
	}
	sync("bus.emit", { channel, data: text });
}

/** Throws for values that JSON would change: part of a value would be worse than none. */
function requireJson(key, value) {
	if (typeof value === "function" || typeof value === "symbol") throw new TypeError(`${key || "it"} is a ${typeof value}`);
	if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
	const prototype = Object.getPrototypeOf(value);
	if (prototype === null || prototype === Object.prototype) return value;
	throw new TypeError(`${key || "it"} is a ${prototype.constructor?.name ?? "special object"}`);
}
