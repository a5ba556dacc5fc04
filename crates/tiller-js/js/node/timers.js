// `timers`.

import { clearImmediate, clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from "tiller:timers";
import * as promised from "node:timers/promises";

export { clearImmediate, clearInterval, clearTimeout, setImmediate, setInterval, setTimeout };
export { promised as promises };
