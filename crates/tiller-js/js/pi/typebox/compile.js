// "Compiled" schemas: checked by walking them, so that no code is generated at run time.

import { Check, Decode, Errors, Parse } from "pi:typebox/value";

export function Compile(schema) {
	return {
		Schema: () => schema,
		Check: (value) => Check(schema, value),
		Errors: (value) => Errors(schema, value),
		Parse: (value) => Parse(schema, value),
		Decode: (value) => Decode(schema, value),
		Code: () => "",
	};
}

export const TypeCompiler = { Compile };
export default Compile;
