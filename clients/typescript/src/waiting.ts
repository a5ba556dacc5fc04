/** Waiting for a promise, but not for ever. */

import { TillerError, Timeout } from "./errors.js";

export interface WaitOptions {
  /** Stops waiting. What is waited for goes on. */
  signal?: AbortSignal | undefined;
  /** Throws {@link Timeout} if it takes longer, in milliseconds. */
  timeoutMs?: number | undefined;
}

/** A promise with its `resolve` and `reject`, which Node.js 20 does not have. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(error: Error): void;
}

export function deferred<T>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}

/** Waits within the limits of the options. Leaves no timer and no listener behind. */
export async function waitFor<T>(
  promise: Promise<T>,
  what: string,
  { signal, timeoutMs }: WaitOptions = {},
): Promise<T> {
  if (signal === undefined && timeoutMs === undefined) return promise;
  const stopped = deferred<never>();
  const onAbort = (): void => stopped.reject(abortReason(signal));
  const onTimeout = (): void => stopped.reject(new Timeout(`no ${what} within ${timeoutMs} ms`));
  const timer = timeoutMs === undefined ? undefined : setTimeout(onTimeout, timeoutMs);
  if (signal?.aborted === true) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, stopped.promise]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

/** Whether the promise settles in time. */
export async function settlesWithin(
  promise: Promise<unknown>,
  timeoutMs: number,
): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  );
  try {
    return await waitFor(settled, "end", { timeoutMs });
  } catch {
    return false;
  }
}

function abortReason(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new TillerError("the wait was aborted");
}
