// `v8`: stubs, because the engine is not V8.

export const getHeapStatistics = () => ({ total_heap_size: 0, used_heap_size: 0, heap_size_limit: 0 });
export const serialize = (value) => new TextEncoder().encode(JSON.stringify(value));
export const deserialize = (bytes) => JSON.parse(new TextDecoder().decode(bytes));
export const setFlagsFromString = () => {};
