// Prompt and tools inside a conversation: messages of role `system`. The first one holds the prompt and the
// tools; later ones add text, replace sections by name, and add or remove tools.

/** The first system message for a prompt and tools, or nothing if there is neither. */
export function createInitialSystemMessage(systemPrompt, tools) {
	if (!systemPrompt && !tools?.length) return undefined;
	const message = { role: "system", content: systemPrompt ?? "", timestamp: Date.now() };
	if (tools?.length) message.toolsAdded = tools;
	return message;
}

/** Moves a prompt and tools beside the messages into a first system message. */
export function normalizeContext({ systemPrompt, tools, messages = [], ...rest }) {
	const first = createInitialSystemMessage(systemPrompt, tools);
	return { ...rest, messages: first ? [first, ...messages] : messages };
}

export function getInitialSystemMessage(messages) {
	return messages[0]?.role === "system" ? messages[0] : undefined;
}

export function withoutInitialSystemMessage(messages) {
	return getInitialSystemMessage(messages) ? messages.slice(1) : messages;
}

const systemOf = (messages) => messages.filter((message) => message.role === "system");

export function getCurrentTools(messages) {
	const tools = new Map();
	for (const { toolsRemoved, toolsAdded } of systemOf(messages)) {
		for (const { name } of toolsRemoved ?? []) tools.delete(name);
		for (const tool of toolsAdded ?? []) tools.set(tool.name, tool);
	}
	return [...tools.values()];
}

/** Every tool that was ever declared, in order of first appearance. */
export function getDeclaredTools(messages) {
	const tools = new Map();
	for (const { toolsAdded } of systemOf(messages)) {
		for (const tool of toolsAdded ?? []) if (!tools.has(tool.name)) tools.set(tool.name, tool);
	}
	return [...tools.values()];
}

/** All system messages merged into one. */
export function getCurrentSystemMessage(messages) {
	const system = systemOf(messages);
	if (system.length === 0) return undefined;
	const sections = {};
	for (const message of system) {
		for (const [name, text] of Object.entries(message.sections ?? {})) {
			if (text === null) delete sections[name];
			else sections[name] = text;
		}
	}
	const tools = getCurrentTools(messages);
	const content = system.map((message) => contentText(message.content)).filter(Boolean).join("\n\n");
	const whole = { role: "system", content, timestamp: system[0].timestamp };
	if (Object.keys(sections).length > 0) whole.sections = sections;
	if (tools.length > 0) whole.toolsAdded = tools;
	return whole;
}

export function getSystemMessageText(message) {
	if (!message) return "";
	const sections = Object.values(message.sections ?? {}).filter(Boolean);
	return [contentText(message.content), ...sections].filter(Boolean).join("\n\n");
}

export function getCurrentSystemPrompt(messages) {
	return getSystemMessageText(getCurrentSystemMessage(messages));
}

/** Replaces all system messages by one at the beginning. */
export function collapseSystemMessages(context) {
	const first = getCurrentSystemMessage(context.messages);
	const rest = context.messages.filter((message) => message.role !== "system");
	return { ...context, messages: first ? [first, ...rest] : rest };
}

export function resolveTranscript(context, supportsMidConvoSystemMessages) {
	return supportsMidConvoSystemMessages ? context : collapseSystemMessages(context);
}

export function contentText(content) {
	if (typeof content === "string") return content;
	return (content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n");
}
