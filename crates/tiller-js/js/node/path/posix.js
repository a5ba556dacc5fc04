// `path/posix`.

import { posix } from "node:path";

const { sep, delimiter, normalize, isAbsolute, join, resolve, relative, dirname, basename, extname, parse, format } = posix;
export { sep, delimiter, normalize, isAbsolute, join, resolve, relative, dirname, basename, extname, parse, format };
export default posix;
