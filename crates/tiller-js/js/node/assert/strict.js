// `assert/strict`.

import assert, { AssertionError, deepStrictEqual, doesNotMatch, fail, match, ok, rejects, strictEqual, throws } from "node:assert";

export { AssertionError, deepStrictEqual, deepStrictEqual as deepEqual, doesNotMatch, fail, match, ok, rejects, strictEqual, strictEqual as equal, throws };
export default assert;
