// Checks values against schemas.

/** Every mismatch of `value`: `{path, message}`. */
export function* findings(schema, value, path = "") {
	const wrong = (message, at = path) => ({ path: at, instancePath: at, message, value, schema });
	if (schema.const !== undefined && value !== schema.const) yield wrong(`must be ${JSON.stringify(schema.const)}`);
	if (schema.enum && !schema.enum.includes(value)) yield wrong("must be one of the allowed values");
	if (schema.anyOf && !schema.anyOf.some((each) => Check(each, value))) yield wrong("must match one of the schemas");
	if (schema.not && Check(schema.not, value)) yield wrong("must not be valid");
	for (const each of schema.allOf ?? []) yield* findings(each, value, path);
	const types = schema.type === undefined ? [] : [schema.type].flat();
	if (types.length > 0 && !types.some((type) => isOf(type, value))) {
		yield wrong(`must be ${types.join(" or ")}`);
		return;
	}
	if (typeof value === "string") {
		if (value.length < (schema.minLength ?? 0)) yield wrong(`must not have fewer than ${schema.minLength} characters`);
		if (value.length > (schema.maxLength ?? Infinity)) yield wrong(`must not have more than ${schema.maxLength} characters`);
		if (schema.pattern !== undefined && !new RegExp(schema.pattern).test(value)) yield wrong(`must match pattern ${schema.pattern}`);
	} else if (typeof value === "number") {
		if (value < (schema.minimum ?? -Infinity)) yield wrong(`must be >= ${schema.minimum}`);
		if (value > (schema.maximum ?? Infinity)) yield wrong(`must be <= ${schema.maximum}`);
	} else if (Array.isArray(value)) {
		if (value.length < (schema.minItems ?? 0)) yield wrong(`must not have fewer than ${schema.minItems} items`);
		if (value.length > (schema.maxItems ?? Infinity)) yield wrong(`must not have more than ${schema.maxItems} items`);
		for (const [at, item] of value.entries()) {
			const own = Array.isArray(schema.items) ? schema.items[at] : schema.items;
			if (own) yield* findings(own, item, `${path}/${at}`);
		}
	} else if (typeof value === "object" && value !== null) {
		for (const name of schema.required ?? []) if (!Object.hasOwn(value, name)) yield wrong(`must have required property '${name}'`, `${path}/${name}`);
		for (const [name, held] of Object.entries(value)) {
			const own = schema.properties?.[name] ?? Object.entries(schema.patternProperties ?? {}).find(([pattern]) => new RegExp(pattern).test(name))?.[1];
			if (own) yield* findings(own, held, `${path}/${name}`);
			else if (schema.additionalProperties === false) yield wrong("must not have additional properties", `${path}/${name}`);
			else if (typeof schema.additionalProperties === "object") yield* findings(schema.additionalProperties, held, `${path}/${name}`);
		}
	}
}

function isOf(type, value) {
	switch (type) {
		case "null":
			return value === null;
		case "array":
			return Array.isArray(value);
		case "object":
			return typeof value === "object" && value !== null && !Array.isArray(value);
		case "integer":
			return Number.isInteger(value);
		default:
			return typeof value === type;
	}
}

export function Check(schema, value) {
	return findings(schema, value).next().done === true;
}

export function Errors(schema, value) {
	const all = [...findings(schema, value)];
	all.First = () => all[0];
	return all;
}

export function Default(schema, value) {
	if (value === undefined && schema.default !== undefined) return structuredClone(schema.default);
	if (typeof value === "object" && value !== null && schema.properties) {
		for (const [name, each] of Object.entries(schema.properties)) {
			const filled = Default(each, value[name]);
			if (filled !== undefined) value[name] = filled;
		}
	}
	return value;
}

export function Convert(schema, value) {
	if (schema.type === "number" || schema.type === "integer") {
		return typeof value === "string" && value.trim() !== "" && !Number.isNaN(Number(value)) ? Number(value) : value;
	}
	if (schema.type === "boolean") return value === "true" ? true : value === "false" ? false : value;
	if (schema.type === "string") return ["number", "boolean"].includes(typeof value) ? String(value) : value;
	if (schema.type === "array" && Array.isArray(value)) return value.map((item) => Convert(schema.items ?? {}, item));
	if (schema.properties && typeof value === "object" && value !== null) {
		return Object.fromEntries(Object.entries(value).map(([name, held]) => [name, Convert(schema.properties[name] ?? {}, held)]));
	}
	return value;
}

export function Clean(schema, value) {
	if (!schema.properties || typeof value !== "object" || value === null) return value;
	return Object.fromEntries(Object.entries(value).filter(([name]) => name in schema.properties).map(([name, held]) => [name, Clean(schema.properties[name], held)]));
}

export function Create(schema) {
	if (schema.default !== undefined) return structuredClone(schema.default);
	if (schema.const !== undefined) return schema.const;
	if (schema.enum) return schema.enum[0];
	if (schema.anyOf) return Create(schema.anyOf[0]);
	if (schema.type === "object") return Object.fromEntries((schema.required ?? []).map((name) => [name, Create(schema.properties[name])]));
	return { string: "", number: 0, integer: 0, boolean: false, array: [], null: null }[schema.type];
}

export function Parse(schema, value) {
	const parsed = Default(schema, Convert(schema, structuredClone(value)));
	const first = Errors(schema, parsed).First();
	if (first) throw Object.assign(new Error(`${first.path || "/"}: ${first.message}`), { errors: Errors(schema, parsed) });
	return parsed;
}

export const Decode = Parse;
export const Encode = Parse;

export function Assert(schema, value) {
	Parse(schema, value);
}

export function Equal(a, b) {
	return JSON.stringify(a) === JSON.stringify(b);
}

export const Clone = (value) => structuredClone(value);
export const Value = { Check, Errors, Default, Convert, Clean, Create, Parse, Decode, Encode, Assert, Equal, Clone };
export default Value;
