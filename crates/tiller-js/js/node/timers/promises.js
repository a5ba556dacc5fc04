// Timers as promises.

import * as timers from "tiller:timers";

function wait(start, clear, value, { signal } = {}) {
	return new Promise((resolve, reject) => {
		if (signal?.aborted) return reject(signal.reason);
		const timer = start(() => {
			signal?.removeEventListener("abort", abort);
			resolve(value);
		});
		const abort = () => {
			clear(timer);
			reject(signal.reason);
		};
		signal?.addEventListener("abort", abort, { once: true });
	});
}

export const setTimeout = (ms, value, options) => wait((done) => timers.setTimeout(done, ms), timers.clearTimeout, value, options);
export const setImmediate = (value, options) => wait((done) => timers.setImmediate(done), timers.clearImmediate, value, options);

export async function* setInterval(ms, value, options) {
	for (;;) yield await setTimeout(ms, value, options);
}

export const scheduler = { wait: (ms, options) => setTimeout(ms, undefined, options), yield: () => setImmediate() };
