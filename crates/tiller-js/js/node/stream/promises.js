// `stream/promises`.

import { promises } from "node:stream";

const { finished, pipeline } = promises;
export { finished, pipeline };
