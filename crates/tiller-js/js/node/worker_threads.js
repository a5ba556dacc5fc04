// `worker_threads`: an engine has one thread; starting a worker fails with a message that says so.

const { MessageChannel, MessagePort, BroadcastChannel } = globalThis;
export { MessageChannel, MessagePort, BroadcastChannel };
export const isMainThread = true;
export const parentPort = null;
export const workerData = null;
export const threadId = 0;
export const resourceLimits = {};

export class Worker {
	constructor() {
		throw Object.assign(new Error("node:worker_threads.Worker cannot run inside tiller"), { code: "ERR_TILLER_UNSUPPORTED" });
	}
}

export const markAsUntransferable = () => {};
export const moveMessagePortToContext = (port) => port;
export const receiveMessageOnPort = () => undefined;
export const setEnvironmentData = () => {};
export const getEnvironmentData = () => undefined;
