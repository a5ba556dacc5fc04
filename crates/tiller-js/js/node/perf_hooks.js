// `perf_hooks`.

const { performance } = globalThis;
export { performance };
export const constants = {};

export class PerformanceObserver {
	observe() {}
	disconnect() {}
}

export const monitorEventLoopDelay = () => ({ enable() {}, disable() {}, min: 0, max: 0, mean: 0, percentile: () => 0 });
export const createHistogram = () => ({ record() {}, min: 0, max: 0, mean: 0, percentile: () => 0 });
