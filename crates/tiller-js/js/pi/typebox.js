// TypeBox builders that return JSON Schema. A result is plain data with a non-enumerable mark.

const optional = Symbol.for("TypeBox.Optional");
const kind = Symbol.for("TypeBox.Kind");

function schema(name, fields, options) {
	const made = { ...fields, ...options };
	Object.defineProperty(made, kind, { value: name, enumerable: false });
	return made;
}

function marked(from, mark, value) {
	const made = { ...from };
	for (const key of [kind, optional]) {
		if (from[key] !== undefined) Object.defineProperty(made, key, { value: from[key], enumerable: false, configurable: true });
	}
	Object.defineProperty(made, mark, { value, enumerable: false, configurable: true });
	return made;
}

const isOptional = (of) => of?.[optional] === true;

function object(properties, options) {
	const required = Object.keys(properties).filter((name) => !isOptional(properties[name]));
	return schema("Object", { type: "object", ...(required.length > 0 && { required }), properties }, options);
}

function picked(of, keep, options) {
	const { type, required, properties, ...rest } = of;
	const kept = Object.fromEntries(Object.entries(properties ?? {}).filter(([name]) => keep(name)));
	return object(kept, { ...rest, ...options });
}

function names(keys) {
	if (Array.isArray(keys)) return keys.map((key) => `${key}`);
	if (keys?.anyOf) return keys.anyOf.map((each) => `${each.const}`);
	return keys?.const === undefined ? [] : [`${keys.const}`];
}

const plain = (name, type) => (options) => schema(name, { type }, options);

export const Any = (options) => schema("Any", {}, options);
export const Unknown = (options) => schema("Unknown", {}, options);
export const String = plain("String", "string");
export const Number = plain("Number", "number");
export const Integer = plain("Integer", "integer");
export const Boolean = plain("Boolean", "boolean");
export const Null = plain("Null", "null");
export const BigInt = plain("BigInt", "bigint");
export const Symbol_ = plain("Symbol", "symbol");
export const Undefined = plain("Undefined", "undefined");
export const Void = plain("Void", "void");
export const Date_ = plain("Date", "Date");
export const Never = (options) => schema("Never", { not: {} }, options);
export const Object_ = (properties = {}, options) => object(properties, options);
export const Array_ = (items, options) => schema("Array", { type: "array", items }, options);
export const Literal = (value, options) => schema("Literal", { type: typeof value, const: value }, options);
export const Union = (anyOf, options) => schema("Union", { anyOf }, options);
export const Intersect = (allOf, options) => schema("Intersect", { allOf }, options);
export const Not = (not, options) => schema("Not", { not }, options);
export const Unsafe = (of = {}) => schema("Unsafe", of);
export const Ref = (to, options) => schema("Ref", { $ref: typeof to === "string" ? to : to.$id }, options);
export const This = (options) => schema("This", { $ref: "#" }, options);
export const Optional = (of) => marked(of, optional, true);
export const Readonly = (of) => marked(of, Symbol.for("TypeBox.Readonly"), true);
export const ReadonlyOptional = (of) => Optional(Readonly(of));
export const RegExp_ = (pattern, options) =>
	schema("RegExp", { type: "string", pattern: typeof pattern === "string" ? pattern : pattern.source }, options);

export function Enum(values, options) {
	const list = Array.isArray(values) ? values : Object.entries(values).filter(([key]) => !/^\d+$/.test(key)).map(([, value]) => value);
	return schema("Enum", { enum: list }, options);
}

export function Tuple(items, options) {
	return schema("Tuple", { type: "array", additionalItems: false, items, minItems: items.length }, options);
}

export function Record(key, value, options) {
	const listed = names(key);
	if (listed.length > 0) return object(Object.fromEntries(listed.map((name) => [name, value])), options);
	const pattern = key?.pattern ?? (key?.type === "number" || key?.type === "integer" ? "^-?(?:0|[1-9][0-9]*)(?:.[0-9]+)?$" : "^.*$");
	return schema("Record", { type: "object", patternProperties: { [pattern]: value } }, options);
}

export function Partial(of, options) {
	const { type, required, properties, ...rest } = of;
	return object(Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, Optional(each)])), { ...rest, ...options });
}

export function Required(of, options) {
	const { type, required, properties, ...rest } = of;
	return object(Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, marked(each, optional, false)])), { ...rest, ...options });
}

export const Pick = (of, keys, options) => picked(of, (name) => names(keys).includes(name), options);
export const Omit = (of, keys, options) => picked(of, (name) => !names(keys).includes(name), options);
export const Index = (of, key) => of.properties?.[names(key)[0]] ?? Never();
export const KeyOf = (of, options) => Union(Object.keys(of.properties ?? {}).map((name) => Literal(name)), options);

export function Composite(list, options) {
	return object(Object.assign({}, ...list.map((each) => each.properties)), options);
}

export function Interface(list, properties, options) {
	return object(Object.assign({}, ...list.map((each) => each.properties), properties), options);
}

export function Const(value, options) {
	if (Array.isArray(value)) return Tuple(value.map((each) => Const(each)), options);
	if (typeof value === "object" && value !== null) {
		return object(Object.fromEntries(Object.entries(value).map(([name, each]) => [name, Const(each)])), options);
	}
	return value === null ? Null(options) : Literal(value, options);
}

export function TemplateLiteral(template, options) {
	const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
	const source =
		typeof template === "string"
			? template.split(/(\$\{[^}]*\})/).map((part) => (part.startsWith("${") ? ".*" : escaped(part))).join("")
			: template.map((each) => (each.const === undefined ? ".*" : escaped(`${each.const}`))).join("");
	return schema("TemplateLiteral", { type: "string", pattern: `^${source}$` }, options);
}

export const Function_ = (parameters, returnType, options) => schema("Function", { type: "function", parameters, returnType }, options);
export const Recursive = (make, options) => schema("Recursive", make(This()), options);
export const Exclude = (of, from) => Union((of.anyOf ?? []).filter((each) => !(from.anyOf ?? [from]).some((other) => other.const === each.const)));
export const Extract = (of, from) => Union((of.anyOf ?? []).filter((each) => (from.anyOf ?? [from]).some((other) => other.const === each.const)));
export const Module = (types) => ({ Import: (name) => types[name], ...types });
export const Transform = (of) => ({ Decode: () => ({ Encode: () => of }) });
export const Codec = Transform;
export const Refine = (of) => of;
export const Evaluate = (of) => of;
export const Clone = (of) => structuredClone(of);

export const IsOptional = isOptional;
export const IsSchema = (value) => typeof value === "object" && value !== null;
const isKind = (name) => (value) => value?.[kind] === name;
export const IsString = isKind("String");
export const IsNumber = isKind("Number");
export const IsObject = isKind("Object");
export const IsArray = isKind("Array");
export const IsUnion = isKind("Union");
export const IsLiteral = isKind("Literal");

export const Type = {
	Any, Unknown, String, Number, Integer, Boolean, Null, BigInt, Symbol: Symbol_, Undefined, Void, Date: Date_, Never,
	Object: Object_, Array: Array_, Literal, Union, Intersect, Not, Unsafe, Ref, This, Optional, Readonly, ReadonlyOptional,
	RegExp: RegExp_, Enum, Tuple, Record, Partial, Required, Pick, Omit, Index, KeyOf, Composite, Interface, Const,
	TemplateLiteral, Function: Function_, Recursive, Exclude, Extract, Module, Transform, Codec, Refine, Evaluate, Clone,
	IsOptional, IsSchema, IsString, IsNumber, IsObject, IsArray, IsUnion, IsLiteral,
};

export const Kind = kind;
export const OptionalKind = optional;
export const FormatRegistry = { Set() {}, Get: () => undefined, Has: () => false };
export const TypeRegistry = FormatRegistry;
export default Type;
