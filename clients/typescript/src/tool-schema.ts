/** The TypeScript type of a value that satisfies a JSON Schema, for the schemas that tools use. */

/** A JSON Schema. Keywords beyond these are passed on to the model. */
export interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: { readonly [name: string]: JsonSchema };
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly [keyword: string]: unknown;
}

/** The type of the values that `S` allows; `unknown` where `S` says too little. */
export type FromSchema<S> = S extends { const: infer V }
  ? V
  : S extends { enum: readonly (infer V)[] }
    ? V
    : S extends { type: "string" }
      ? string
      : S extends { type: "number" | "integer" }
        ? number
        : S extends { type: "boolean" }
          ? boolean
          : S extends { type: "null" }
            ? null
            : S extends { type: "array"; items: infer I }
              ? FromSchema<I>[]
              : S extends { type: "object"; properties: infer P }
                ? FromProperties<P, S extends { required: readonly (infer R)[] } ? R : never>
                : S extends { type: "object" }
                  ? { [name: string]: unknown }
                  : unknown;

type FromProperties<P, Required> = {
  -readonly [K in keyof P as K extends Required ? K : never]: FromSchema<P[K]>;
} & {
  -readonly [K in keyof P as K extends Required ? never : K]?: FromSchema<P[K]>;
};
