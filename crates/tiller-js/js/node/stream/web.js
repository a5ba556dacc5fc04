// `stream/web`.

const { ReadableStream, ReadableStreamDefaultReader, WritableStream, WritableStreamDefaultWriter, TransformStream, TextDecoderStream, TextEncoderStream, ByteLengthQueuingStrategy, CountQueuingStrategy } = globalThis;
export { ReadableStream, ReadableStreamDefaultReader, WritableStream, WritableStreamDefaultWriter, TransformStream, TextDecoderStream, TextEncoderStream, ByteLengthQueuingStrategy, CountQueuingStrategy };
