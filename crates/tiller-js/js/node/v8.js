// `v8`: another engine; what is asked of it here has nothing to tell.

export const getHeapStatistics = () => ({ total_heap_size: 0, used_heap_size: 0, heap_size_limit: 0 });
export const serialize = (value) => new TextEncoder().encode(JSON.stringify(value));
export const deserialize = (bytes) => JSON.parse(new TextDecoder().decode(bytes));
export const setFlagsFromString = () => {};
