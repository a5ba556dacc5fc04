// The part of pi's own package that needs no terminal.

import { hostInfo, native, query } from "tiller:host";
import { compact } from "tiller:compaction";
import { convertToLlm, serializeConversation } from "tiller:conversation";
import { parseFrontmatter, stripFrontmatter } from "tiller:frontmatter";
import { buildSessionContext, getLatestCompactionEntry, parseSessionEntries } from "tiller:session-entries";
import { CURRENT_SESSION_VERSION, SessionManager } from "tiller:session-file";
import { SettingsManager } from "tiller:settings-file";
import { theme, Theme } from "tiller:theme";
import {
	createBashTool,
	createBashToolDefinition,
	createCodingTools,
	createEditTool,
	createEditToolDefinition,
	createFindTool,
	createFindToolDefinition,
	createGrepTool,
	createGrepToolDefinition,
	createLocalBashOperations,
	createLsTool,
	createLsToolDefinition,
	createReadOnlyTools,
	createReadTool,
	createReadToolDefinition,
	createWriteTool,
	createWriteToolDefinition,
	withFileMutationQueue,
} from "tiller:tools";
import { DEFAULT_MAX_BYTES, DEFAULT_MAX_LINES, formatSize, truncateHead, truncateLine, truncateTail } from "tiller:truncate";
import { CancellableLoader, Container, Editor, getKeybindings, Text } from "pi:tui";

export { compact, convertToLlm, serializeConversation, parseFrontmatter, stripFrontmatter };
export { buildSessionContext, CURRENT_SESSION_VERSION, getLatestCompactionEntry, parseSessionEntries, SessionManager };
export { createBashTool, createEditTool, createFindTool, createGrepTool, createLsTool, createReadTool, createWriteTool };
export { createBashToolDefinition, createEditToolDefinition, createFindToolDefinition, createGrepToolDefinition };
export { createLsToolDefinition, createReadToolDefinition, createWriteToolDefinition };
export { createCodingTools, createReadOnlyTools, createLocalBashOperations, withFileMutationQueue };
export { DEFAULT_MAX_BYTES, DEFAULT_MAX_LINES, formatSize, truncateHead, truncateLine, truncateTail, Theme };

export const CONFIG_DIR_NAME = ".pi";
export const VERSION = hostInfo.version;

export function getAgentDir() {
	const dir = globalThis.process.env.PI_CODING_AGENT_DIR;
	return dir ? dir.replace(/^~(?=\/|$)/, hostInfo.homeDir) : hostInfo.agentDir;
}

export function getPackageDir() {
	const { dirname } = native.importNow("node:path");
	return globalThis.process.env.PI_PACKAGE_DIR ?? dirname(hostInfo.execPath);
}

export const getDocsPath = () => `${getPackageDir()}/docs`;
export const getExamplesPath = () => `${getPackageDir()}/examples`;
export const getReadmePath = () => `${getPackageDir()}/README.md`;

export const defineTool = (tool) => tool;
export const isToolCallEventType = (name, event) => event.toolName === name;
const resultOf = (name) => (event) => event.toolName === name;
export const isBashToolResult = resultOf("bash");
export const isReadToolResult = resultOf("read");
export const isEditToolResult = resultOf("edit");
export const isWriteToolResult = resultOf("write");
export const isGrepToolResult = resultOf("grep");
export const isFindToolResult = resultOf("find");
export const isLsToolResult = resultOf("ls");
export const isPowerShellToolResult = resultOf("powershell");

export function createEventBus() {
	const channels = new Map();
	return {
		emit(channel, data) {
			for (const handle of [...(channels.get(channel) ?? [])]) {
				try {
					handle(data);
				} catch (error) {
					console.error(`Event handler error (${channel}):`, error);
				}
			}
		},
		on(channel, handle) {
			if (!channels.has(channel)) channels.set(channel, new Set());
			channels.get(channel).add(handle);
			return () => channels.get(channel)?.delete(handle);
		},
		clear: () => channels.clear(),
	};
}

/** Estimates the tokens of a message from its length. */
export function estimateTokens(message) {
	const text = typeof message.content === "string" ? message.content : JSON.stringify(message.content ?? message.summary ?? message.output ?? "");
	return Math.ceil(text.length / 4);
}

export const calculateContextTokens = (usage) =>
	usage.totalTokens || usage.input + usage.output + usage.cacheRead + usage.cacheWrite;

export const DEFAULT_COMPACTION_SETTINGS = { enabled: true, reserveTokens: 16384, keepRecentTokens: 20000 };
export const shouldCompact = (tokens, window, settings = DEFAULT_COMPACTION_SETTINGS) =>
	settings.enabled && tokens > window - settings.reserveTokens;

export function getLastAssistantUsage(entries) {
	return entries.findLast((entry) => entry.type === "message" && entry.message.role === "assistant")?.message.usage;
}

export function getShellConfig() {
	const { existsSync } = native.importNow("node:fs");
	return { shell: existsSync("/bin/bash") ? "/bin/bash" : "sh", args: ["-c"] };
}

export async function copyToClipboard(text) {
	const { spawnSync } = native.importNow("node:child_process");
	for (const [command, ...args] of [["pbcopy"], ["wl-copy"], ["xclip", "-selection", "clipboard"]]) {
		const done = spawnSync(command, args, { input: text });
		if (!done.error && done.status === 0) return;
	}
	throw new Error("no clipboard program found");
}

const languages = { ts: "typescript", tsx: "tsx", js: "javascript", mjs: "javascript", cjs: "javascript", jsx: "javascript", py: "python", rb: "ruby", rs: "rust", go: "go", java: "java", c: "c", h: "c", cpp: "cpp", hpp: "cpp", cs: "csharp", php: "php", sh: "bash", bash: "bash", zsh: "bash", json: "json", yaml: "yaml", yml: "yaml", toml: "toml", md: "markdown", html: "html", css: "css", sql: "sql", swift: "swift", kt: "kotlin", lua: "lua", makefile: "makefile", dockerfile: "dockerfile" };

export const getLanguageFromPath = (path) => languages[String(path).split(/[./]/).pop().toLowerCase()];
export const highlightCode = (code) => String(code).split("\n");

// Styles do nothing, because there is no terminal.
const same = (text) => text;
export const getMarkdownTheme = () => new Proxy({ highlightCode }, { get: (own, name) => own[name] ?? same });
export const getSelectListTheme = () => ({ selectedPrefix: same, selectedText: same, description: same, scrollInfo: same, noMatch: same });
export const getSettingsListTheme = () => ({ label: same, value: same, description: same, cursor: "> ", hint: same });
export const initTheme = () => theme;
export const keyText = (binding) => getKeybindings().getKeys(binding).join("/");
export const keyHint = (binding, text) => `${keyText(binding)} ${text}`;
export const rawKeyHint = (key, text) => `${key} ${text}`;

export class DynamicBorder extends Text {
	constructor(color = same) {
		super("");
		this.color = color;
	}
	render(width) {
		return [this.color("─".repeat(Math.max(1, width)))];
	}
}

export class BorderedLoader extends CancellableLoader {
	constructor(tui, theme, message, options) {
		super(tui, same, same, message);
		Object.assign(this, { theme, options });
	}
	onAbort = undefined;
}

export class CustomEditor extends Editor {
	constructor(tui, theme, keybindings, options) {
		super(tui, theme, options);
		this.keybindings = keybindings;
		this.actionHandlers = new Map();
	}
	onAction(action, handler) {
		this.actionHandlers.set(action, handler);
	}
}

/** A component that only a terminal would draw. */
class Shown extends Container {
	constructor(...args) {
		super();
		this.args = args;
	}
	setExpanded() {}
	updateContent() {}
	updateResult() {}
}

export class AssistantMessageComponent extends Shown {}
export class UserMessageComponent extends Shown {}
export class ToolExecutionComponent extends Shown {}
export class BashExecutionComponent extends Shown {}
export class CustomMessageComponent extends Shown {}
export class BranchSummaryMessageComponent extends Shown {}
export class CompactionSummaryMessageComponent extends Shown {}
export class SkillInvocationMessageComponent extends Shown {}
export class FooterComponent extends Shown {}
export class ModelSelectorComponent extends Shown {}
export class SessionSelectorComponent extends Shown {}
export class SettingsSelectorComponent extends Shown {}
export class ThemeSelectorComponent extends Shown {}
export class ThinkingSelectorComponent extends Shown {}
export class TreeSelectorComponent extends Shown {}
export class UserMessageSelectorComponent extends Shown {}
export class OAuthSelectorComponent extends Shown {}
export class LoginDialogComponent extends Shown {}
export class ShowImagesSelectorComponent extends Shown {}
export class ExtensionEditorComponent extends Shown {}
export class ExtensionInputComponent extends Shown {}
export class ExtensionSelectorComponent extends Shown {}
export class ArminComponent extends Shown {}

export const renderDiff = same;
export function truncateToVisualLines(text, maxLines, width, paddingX = 0) {
	const lines = new Text(text, paddingX, 0).render(width);
	return { visualLines: lines.slice(-maxLines), skippedCount: Math.max(0, lines.length - maxLines) };
}

export const createSyntheticSourceInfo = (path, more) => ({ path, source: "local", scope: "temporary", origin: "top-level", ...more });

export function loadSkills({ cwd = query("cwd"), agentDir = getAgentDir(), skillPaths = [] } = {}) {
	const found = [`${agentDir}/skills`, `${cwd}/.pi/skills`, ...skillPaths].map((dir) => loadSkillsFromDir({ dir }));
	return { skills: found.flatMap((each) => each.skills), diagnostics: found.flatMap((each) => each.diagnostics) };
}

/** Skills in a folder: each is a folder with a `SKILL.md`. */
export function loadSkillsFromDir({ dir, source = "path" }) {
	const fs = native.importNow("node:fs");
	const skills = [];
	const diagnostics = [];
	if (!fs.existsSync(dir)) return { skills, diagnostics };
	for (const name of fs.readdirSync(dir)) {
		const filePath = `${dir}/${name}/SKILL.md`;
		if (!fs.existsSync(filePath)) continue;
		try {
			const { frontmatter } = parseFrontmatter(fs.readFileSync(filePath, "utf8"));
			skills.push({ name: frontmatter.name ?? name, description: frontmatter.description ?? "", filePath, baseDir: `${dir}/${name}`, source, disableModelInvocation: frontmatter["disable-model-invocation"] === true });
		} catch (error) {
			diagnostics.push({ type: "warning", message: error.message, path: filePath });
		}
	}
	return { skills, diagnostics };
}

export function formatSkillsForPrompt(skills) {
	const lines = skills.map(({ name, description, filePath }) => `- ${name}: ${description} (${filePath})`);
	return lines.length > 0 ? `\n\nSkills:\n${lines.join("\n")}` : "";
}

/** A function that needs a second agent in the same process, which is not supported. */
function nested(name) {
	return class {
		static create() {
			throw new Error(`${name} is not available inside tiller`);
		}
		static inMemory() {
			throw new Error(`${name} is not available inside tiller`);
		}
		constructor() {
			throw new Error(`${name} is not available inside tiller`);
		}
	};
}

export const DefaultResourceLoader = nested("DefaultResourceLoader");
export const DefaultPackageManager = nested("DefaultPackageManager");
export const AgentSession = nested("AgentSession");
export const AgentSessionRuntime = nested("AgentSessionRuntime");
export const ExtensionRunner = nested("ExtensionRunner");
export const InteractiveMode = nested("InteractiveMode");
export const ModelRegistry = nested("ModelRegistry");
export const ModelRuntime = nested("ModelRuntime");
export const RpcClient = nested("RpcClient");
export const AuthStorage = nested("AuthStorage");

export async function createAgentSession() {
	throw new Error("createAgentSession is not available inside tiller");
}
export const createExtensionRuntime = () => ({});

export { SettingsManager };

export class ProjectTrustStore {
	get() {
		return query("isProjectTrusted") ? { trusted: true } : undefined;
	}
	set() {}
}
export const hasTrustRequiringProjectResources = () => false;
export const readStoredCredential = () => undefined;
