// `assert`.

import { inspect, isDeepStrictEqual } from "node:util";

export class AssertionError extends Error {
	constructor({ message, actual, expected, operator }) {
		super(message ?? `${inspect(actual)} ${operator} ${inspect(expected)}`);
		this.name = "AssertionError";
		Object.assign(this, { code: "ERR_ASSERTION", actual, expected, operator, generatedMessage: message === undefined });
	}
}

function check(holds, actual, expected, operator, message) {
	if (holds) return;
	if (message instanceof Error) throw message;
	throw new AssertionError({ message, actual, expected, operator });
}

export function ok(value, message) {
	check(value, value, true, "==", message ?? "The expression evaluated to a falsy value");
}
export const equal = (a, b, message) => check(a == b, a, b, "==", message);
export const notEqual = (a, b, message) => check(a != b, a, b, "!=", message);
export const strictEqual = (a, b, message) => check(Object.is(a, b), a, b, "strictEqual", message);
export const notStrictEqual = (a, b, message) => check(!Object.is(a, b), a, b, "notStrictEqual", message);
export const deepStrictEqual = (a, b, message) => check(isDeepStrictEqual(a, b), a, b, "deepStrictEqual", message);
export const notDeepStrictEqual = (a, b, message) => check(!isDeepStrictEqual(a, b), a, b, "notDeepStrictEqual", message);
export const deepEqual = deepStrictEqual;
export const notDeepEqual = notDeepStrictEqual;
export const match = (text, pattern, message) => check(pattern.test(text), text, pattern, "match", message);
export const doesNotMatch = (text, pattern, message) => check(!pattern.test(text), text, pattern, "doesNotMatch", message);

export function fail(message = "Failed") {
	if (message instanceof Error) throw message;
	throw new AssertionError({ message, operator: "fail" });
}

function fits(error, expected) {
	if (expected === undefined || typeof expected === "string") return true;
	if (expected instanceof RegExp) return expected.test(String(error));
	if (typeof expected === "function") return error instanceof expected || expected(error) === true;
	return Object.entries(expected).every(([key, value]) => (value instanceof RegExp ? value.test(error[key]) : isDeepStrictEqual(error[key], value)));
}

export function throws(work, expected, message) {
	try {
		work();
	} catch (error) {
		if (!fits(error, expected)) throw error;
		return;
	}
	fail(message ?? "Missing expected exception.");
}

export async function rejects(work, expected, message) {
	try {
		await (typeof work === "function" ? work() : work);
	} catch (error) {
		if (!fits(error, expected)) throw error;
		return;
	}
	fail(message ?? "Missing expected rejection.");
}

export function doesNotThrow(work) {
	work();
}
export async function doesNotReject(work) {
	await (typeof work === "function" ? work() : work);
}
export function ifError(error) {
	if (error !== null && error !== undefined) throw error;
}

const assert = Object.assign((value, message) => ok(value, message), { AssertionError, ok, equal: strictEqual, notEqual: notStrictEqual, strictEqual, notStrictEqual, deepEqual, notDeepEqual, deepStrictEqual, notDeepStrictEqual, match, doesNotMatch, fail, throws, rejects, doesNotThrow, doesNotReject, ifError });
assert.strict = assert;
export { assert as strict };
export default assert;
