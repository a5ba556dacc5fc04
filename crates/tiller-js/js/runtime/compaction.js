// The default summary: one request to a model.

import { complete } from "tiller:completion";
import { convertToLlm, serializeConversation } from "tiller:conversation";

const system = "You summarise conversations between a user and a coding agent, so that the agent can go on with the summary alone.";

export async function compact(preparation, model, apiKey, headers, customInstructions, signal, thinkingLevel) {
	const messages = [...(preparation.messagesToSummarize ?? []), ...(preparation.turnPrefixMessages ?? [])];
	const before = preparation.previousSummary ? `Earlier summary:\n${preparation.previousSummary}\n\n` : "";
	const extra = customInstructions ? `\n\nKeep in mind: ${customInstructions}` : "";
	const text = `${before}Conversation:\n\n${serializeConversation(convertToLlm(messages))}\n\nSummarise the goal, what was decided and done, the files involved, and what is left to do.${extra}`;
	const request = { systemPrompt: system, messages: [{ role: "user", content: [{ type: "text", text }], timestamp: Date.now() }] };
	const answer = await complete(model, request, { apiKey, headers, signal, reasoning: thinkingLevel });
	if (answer.stopReason === "error" || answer.stopReason === "aborted") {
		throw new Error(answer.errorMessage ?? "the summary failed");
	}
	const summary = answer.content.filter((block) => block.type === "text").map((block) => block.text).join("\n");
	return { summary, firstKeptEntryId: preparation.firstKeptEntryId, tokensBefore: preparation.tokensBefore, details: {} };
}
