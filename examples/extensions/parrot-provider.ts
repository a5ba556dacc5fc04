// A provider with models of its own that needs no network: it repeats what it was told, word by
// word, or backwards. Try it with
//
//   tiller --mode rpc -e parrot-provider.ts --model parrot/forwards
//
// A provider that talks to a server would do the same around a `fetch` with `options.signal`.

import {
  type AssistantMessage,
  type AssistantMessageEventStream,
  type Model,
  type SimpleStreamOptions,
  type TranscriptContext,
  calculateCost,
  createAssistantMessageEventStream,
} from "@earendil-works/pi-ai";
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  const plain = {
    reasoning: false,
    input: ["text" as const],
    cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 },
    contextWindow: 32_000,
    maxTokens: 4_000,
  };
  pi.registerProvider("parrot", {
    name: "Parrot",
    baseUrl: "parrot:",
    apiKey: "none",
    api: "parrot",
    models: [
      { id: "forwards", name: "Parrot", ...plain },
      { id: "backwards", name: "Parrot on its head", ...plain },
    ],
    streamSimple,
  });
}

function streamSimple(
  model: Model<string>,
  context: TranscriptContext,
  options?: SimpleStreamOptions,
): AssistantMessageEventStream {
  const stream = createAssistantMessageEventStream();
  const message: AssistantMessage = {
    role: "assistant",
    content: [],
    api: model.api,
    provider: model.provider,
    model: model.id,
    usage: {
      input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0,
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
    },
    stopReason: "pending",
    timestamp: Date.now(),
  };
  answer(stream, message, model, context, options).catch((error) => {
    message.stopReason = options?.signal?.aborted ? "aborted" : "error";
    message.errorMessage = String(error?.message ?? error);
    stream.push({ type: "error", reason: message.stopReason, error: message });
  });
  return stream;
}

async function answer(
  stream: AssistantMessageEventStream,
  message: AssistantMessage,
  model: Model<string>,
  context: TranscriptContext,
  options?: SimpleStreamOptions,
) {
  // Other extensions may have a say in what is sent.
  let payload = { words: lastWords(context) };
  payload = ((await options?.onPayload?.(payload, model)) as typeof payload) ?? payload;
  const words = model.id === "backwards" ? payload.words.toReversed() : payload.words;

  const block = { type: "text" as const, text: "" };
  stream.push({ type: "start", partial: message });
  message.content.push(block);
  stream.push({ type: "text_start", contentIndex: 0, partial: message });
  for (const word of words) {
    options?.signal?.throwIfAborted();
    const delta = block.text === "" ? word : ` ${word}`;
    block.text += delta;
    stream.push({ type: "text_delta", contentIndex: 0, delta, partial: message });
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  stream.push({ type: "text_end", contentIndex: 0, content: block.text, partial: message });

  message.usage.input = payload.words.length;
  message.usage.output = words.length;
  message.usage.totalTokens = message.usage.input + message.usage.output;
  calculateCost(model, message.usage);
  message.stopReason = "stop";
  stream.push({ type: "done", reason: "stop", message });
}

function lastWords(context: TranscriptContext): string[] {
  const last = context.messages.findLast((message) => message.role === "user");
  const content = last?.content ?? "";
  const text = typeof content === "string"
    ? content
    : content.map((block) => (block.type === "text" ? block.text : "")).join(" ");
  return text.split(/\s+/).filter(Boolean);
}
