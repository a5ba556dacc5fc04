// Conversations as a model receives them, and as text.

import { sync } from "tiller:host";

const wellFormed = (text) => String(text ?? "").toWellFormed();

/** The user message that a model receives for a command or a summary. An extension may leave out fields that
 * do not matter for its text. */
function asUser({ role, command, output, summary, exitCode, cancelled, truncated, fullOutputPath, timestamp }) {
	const text = sync("text.modelText", {
		role,
		command: wellFormed(command),
		output: wellFormed(output),
		summary: wellFormed(summary),
		exitCode,
		cancelled: Boolean(cancelled),
		truncated: Boolean(truncated),
		fullOutputPath,
		fromId: "",
		tokensBefore: 0,
		timestamp: 0,
	});
	return { role: "user", content: [{ type: "text", text }], timestamp };
}

export function convertToLlm(messages) {
	const converted = [];
	for (const message of messages) {
		switch (message.role) {
			case "bashExecution":
				if (!message.excludeFromContext) converted.push(asUser(message));
				break;
			case "compactionSummary":
			case "branchSummary":
				converted.push(asUser(message));
				break;
			case "custom": {
				const content = typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
				converted.push({ role: "user", content, timestamp: message.timestamp });
				break;
			}
			case "user":
			case "assistant":
			case "toolResult":
			case "system":
				converted.push(message);
				break;
			default:
		}
	}
	return converted;
}

const RESULT_MAX = 2000;

function textOf(content) {
	if (typeof content === "string") return content;
	return (content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n");
}

function callText({ name, arguments: args }) {
	const shown = Object.entries(args ?? {}).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
	return `${name}(${shown.join(", ")})`;
}

export function serializeConversation(messages) {
	const parts = [];
	for (const message of messages) {
		if (message.role === "user") {
			const text = textOf(message.content);
			if (text) parts.push(`[User]: ${text}`);
		} else if (message.role === "assistant") {
			const blocks = (type) => message.content.filter((block) => block.type === type);
			const thinking = blocks("thinking").map((block) => block.thinking).join("\n");
			const text = blocks("text").map((block) => block.text).join("\n");
			const calls = blocks("toolCall").map(callText);
			if (thinking) parts.push(`[Assistant thinking]: ${thinking}`);
			if (text) parts.push(`[Assistant]: ${text}`);
			if (calls.length > 0) parts.push(`[Assistant tool calls]: ${calls.join("; ")}`);
		} else if (message.role === "toolResult") {
			const text = textOf(message.content);
			const cut = text.length > RESULT_MAX ? `${text.slice(0, RESULT_MAX)}\n\n[... ${text.length - RESULT_MAX} more characters truncated]` : text;
			if (cut) parts.push(`[Tool result]: ${cut}`);
		}
	}
	return parts.join("\n\n");
}
