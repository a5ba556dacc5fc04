// A sidecar has its own timers, so tiller has none to fire.

export function fire() {}
