// `path/win32`.

import { win32 } from "node:path";

const { sep, delimiter, normalize, isAbsolute, join, resolve, relative, dirname, basename, extname, parse, format } = win32;
export { sep, delimiter, normalize, isAbsolute, join, resolve, relative, dirname, basename, extname, parse, format };
export default win32;
