// `readline`: lines out of a stream.

import { Interface } from "tiller:lines";
import * as promised from "node:readline/promises";

export { Interface, promised as promises };
export const createInterface = (options, output) => new Interface(options, output);
export const clearLine = () => true;
export const clearScreenDown = () => true;
export const cursorTo = () => true;
export const moveCursor = () => true;
export const emitKeypressEvents = () => {};
