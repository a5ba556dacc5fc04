// The part of pi-tui that extensions use. Nothing is drawn, so components store what they are given and
// return their lines; measuring and cutting text works as in a terminal.

const escapes = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|_[^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

function charWidth(character) {
	const code = character.codePointAt(0);
	if (code < 32 || (code >= 0x7f && code < 0xa0)) return 0;
	if (/^[\p{Mn}\p{Me}\p{Cf}]$/u.test(character)) return 0;
	const isWide =
		(code >= 0x1100 && code <= 0x115f) ||
		(code >= 0x2e80 && code <= 0xa4cf && code !== 0x303f) ||
		(code >= 0xac00 && code <= 0xd7a3) ||
		(code >= 0xf900 && code <= 0xfaff) ||
		(code >= 0xfe30 && code <= 0xfe6f) ||
		(code >= 0xff00 && code <= 0xff60) ||
		(code >= 0xffe0 && code <= 0xffe6) ||
		(code >= 0x1f300 && code <= 0x1faff) ||
		(code >= 0x20000 && code <= 0x3fffd);
	return isWide ? 2 : 1;
}

/** Grapheme clusters: characters with their marks, joined emoji. */
function graphemes(text) {
	return text.match(/(?:\p{RI}\p{RI}|\P{M}(?:\uFE0F|\p{M}|\p{EMod}|\u200D\P{M})*|\p{M})/gsu) ?? [];
}

function graphemeWidth(grapheme) {
	const first = charWidth(grapheme.match(/^./su)[0]);
	return grapheme.includes("\uFE0F") || /^[\p{RI}\p{EPres}]/u.test(grapheme) ? 2 : first;
}

export function visibleWidth(text) {
	const plain = String(text).replace(escapes, "").replace(/\t/g, "   ");
	if (/^[\x20-\x7e]*$/.test(plain)) return plain.length;
	return graphemes(plain).reduce((sum, each) => sum + graphemeWidth(each), 0);
}

/** Text split into escapes and characters: `[piece, width]`. */
function* pieces(text) {
	let at = 0;
	for (const match of text.matchAll(escapes)) {
		for (const each of graphemes(text.slice(at, match.index))) yield [each, graphemeWidth(each)];
		yield [match[0], -1];
		at = match.index + match[0].length;
	}
	for (const each of graphemes(text.slice(at))) yield [each, graphemeWidth(each)];
}

export function truncateToWidth(text, max, ellipsis = "...", pad = false) {
	const width = visibleWidth(text);
	if (width <= max) return pad ? text + " ".repeat(max - width) : text;
	if (max <= 0) return "";
	const tail = begin(ellipsis, max);
	const kept = begin(text, max - visibleWidth(tail));
	// Any style of the text ends where it is cut.
	const cut = `${kept}${reset}${tail && tail + reset}`;
	return pad ? cut + " ".repeat(Math.max(0, max - visibleWidth(cut))) : cut;
}

const reset = "\u001b[0m";

/** As much of the beginning as fits. */
function begin(text, room) {
	let kept = "";
	let used = 0;
	for (const [piece, wide] of pieces(text)) {
		used += Math.max(0, wide);
		if (used > room) break;
		kept += piece;
	}
	return kept;
}

export function sliceByColumn(text, start, length) {
	let column = 0;
	let kept = "";
	for (const [piece, wide] of pieces(text)) {
		if (wide < 0) kept += piece;
		else {
			if (column >= start && column + wide <= start + length) kept += piece;
			column += wide;
		}
	}
	return kept;
}

export function wrapTextWithAnsi(text, width) {
	const lines = [];
	for (const line of String(text).split("\n")) lines.push(...wrapLine(line, Math.max(1, width)));
	return lines;
}

function wrapLine(line, width) {
	if (visibleWidth(line) <= width) return [line];
	const lines = [];
	let style = "";
	let current = "";
	let used = 0;
	const flush = () => {
		lines.push(current.replace(/ +$/, ""));
		current = style;
		used = 0;
	};
	for (const word of line.split(/( +)/)) {
		const wide = visibleWidth(word);
		if (used + wide > width && used > 0) {
			flush();
			if (word.trim() === "") continue;
		}
		for (const [piece, each] of pieces(word)) {
			if (each < 0) {
				style = piece === "\u001b[0m" ? "" : style + piece;
			} else if (used + each > width) flush();
			current += piece;
			used += Math.max(0, each);
		}
	}
	lines.push(current);
	return lines;
}

export function stripTerminalSequences(text) {
	return String(text).replace(escapes, "");
}

export const hyperlink = (text) => text;
export const getOsc8LinkAtColumn = () => undefined;

// Keys: the bytes a terminal sends, and their names.
const named = {
	escape: ["\u001b"], enter: ["\r", "\n"], return: ["\r", "\n"], tab: ["\t"], backspace: ["\u007f", "\b"], space: [" "], delete: ["\u001b[3~"],
	up: ["\u001b[A", "\u001bOA"], down: ["\u001b[B", "\u001bOB"], right: ["\u001b[C", "\u001bOC"], left: ["\u001b[D", "\u001bOD"],
	home: ["\u001b[H", "\u001b[1~", "\u001bOH"], end: ["\u001b[F", "\u001b[4~", "\u001bOF"], pageUp: ["\u001b[5~"], pageDown: ["\u001b[6~"], insert: ["\u001b[2~"],
};
const modifiers = { shift: 1, alt: 2, ctrl: 4, super: 8 };

export function parseKey(data) {
	for (const [name, codes] of Object.entries(named)) if (codes.includes(data)) return name;
	if (data === "\u001b[Z") return "shift+tab";
	if (data.length === 1 && data.charCodeAt(0) < 27) return `ctrl+${String.fromCharCode(data.charCodeAt(0) + 96)}`;
	if (data.length === 2 && data[0] === "\u001b") return `alt+${data[1]}`;
	const kitty = /^\u001b\[(\d+)(?:;(\d+)(?::\d+)?)?u$/.exec(data);
	if (kitty) {
		const bits = Number(kitty[2] ?? 1) - 1;
		const held = Object.keys(modifiers).filter((name) => bits & modifiers[name]);
		const key = { 27: "escape", 13: "enter", 9: "tab", 127: "backspace", 32: "space" }[kitty[1]] ?? String.fromCodePoint(Number(kitty[1]));
		return [...["ctrl", "shift", "alt", "super"].filter((name) => held.includes(name)), key].join("+");
	}
	return [...data].length === 1 ? data : undefined;
}

function plainKey(id) {
	const parts = String(id).toLowerCase().split("+");
	const key = parts.pop() || "+";
	const same = { return: "enter", esc: "escape", pageup: "pageup", pagedown: "pagedown" };
	return [...parts.sort(), same[key] ?? key].join("+");
}

export function matchesKey(data, id) {
	const key = parseKey(data);
	return key !== undefined && plainKey(key) === plainKey(id);
}

const combine = (...held) => (key) => [...held, key].join("+");

export const Key = {
	...Object.fromEntries(Object.keys(named).map((name) => [name, name])),
	esc: "escape",
	...Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`f${at + 1}`, `f${at + 1}`])),
	ctrl: combine("ctrl"),
	shift: combine("shift"),
	alt: combine("alt"),
	super: combine("super"),
	ctrlShift: combine("ctrl", "shift"),
	shiftCtrl: combine("shift", "ctrl"),
	ctrlAlt: combine("ctrl", "alt"),
	altCtrl: combine("alt", "ctrl"),
	shiftAlt: combine("shift", "alt"),
	altShift: combine("alt", "shift"),
	ctrlShiftAlt: combine("ctrl", "shift", "alt"),
};

export const isKeyRelease = (data) => /^\u001b\[[\d;]*:3[u~A-H]/.test(data);
export const isKeyRepeat = (data) => /^\u001b\[[\d;]*:2[u~A-H]/.test(data);
export const decodeKittyPrintable = () => undefined;
export const isKittyProtocolActive = () => false;
export const setKittyProtocolActive = () => {};

export function fuzzyMatch(query, text) {
	const wanted = query.toLowerCase();
	const held = text.toLowerCase();
	let at = 0;
	let score = 0;
	let last = -1;
	for (const character of wanted) {
		const found = held.indexOf(character, at);
		if (found < 0) return { matches: false, score: 0 };
		score += found === last + 1 ? -1 : found - at;
		if (found === 0 || /[\s\-_./:]/.test(held[found - 1])) score -= 2;
		last = found;
		at = found + 1;
	}
	return { matches: true, score };
}

export function fuzzyFilter(items, query, getText = String) {
	if (!query.trim()) return items;
	const words = query.trim().split(/\s+/);
	const scored = [];
	for (const item of items) {
		const matches = words.map((word) => fuzzyMatch(word, getText(item)));
		if (matches.every((match) => match.matches)) scored.push({ item, score: matches.reduce((sum, match) => sum + match.score, 0) });
	}
	return scored.sort((a, b) => a.score - b.score).map(({ item }) => item);
}

/** The base class of components. */
class Component {
	children = [];
	focused = false;
	wantsKeyRelease = false;
	render() {
		return [];
	}
	invalidate() {}
	handleInput() {}
	dispose() {}
}

export class Container extends Component {
	addChild(child) {
		this.children.push(child);
	}
	removeChild(child) {
		this.children = this.children.filter((each) => each !== child);
	}
	clear() {
		this.children = [];
	}
	render(width) {
		return this.children.flatMap((child) => child.render(width));
	}
	invalidate() {
		for (const child of this.children) child.invalidate?.();
	}
}

export class Box extends Container {
	constructor(paddingX = 1, paddingY = 1, bgFn) {
		super();
		Object.assign(this, { paddingX, paddingY, bgFn });
	}
	setBgFn(bgFn) {
		this.bgFn = bgFn;
	}
	render(width) {
		const edge = Array.from({ length: this.paddingY }, () => " ".repeat(width));
		const inner = super.render(Math.max(1, width - 2 * this.paddingX)).map((line) => " ".repeat(this.paddingX) + line);
		return [...edge, ...inner, ...edge].map((line) => (this.bgFn ? this.bgFn(line) : line));
	}
}

export class Text extends Component {
	constructor(text = "", paddingX = 1, paddingY = 1, bgFn) {
		super();
		Object.assign(this, { text, paddingX, paddingY, bgFn });
	}
	setText(text) {
		this.text = text;
	}
	setCustomBgFn(bgFn) {
		this.bgFn = bgFn;
	}
	render(width) {
		if (!this.text || String(this.text).trim() === "") return [];
		const edge = Array.from({ length: this.paddingY }, () => "");
		const lines = wrapTextWithAnsi(this.text, Math.max(1, width - 2 * this.paddingX));
		return [...edge, ...lines.map((line) => " ".repeat(this.paddingX) + line), ...edge];
	}
}

export class TruncatedText extends Text {
	render(width) {
		return [truncateToWidth(String(this.text).split("\n")[0], width)];
	}
}

export class Markdown extends Text {
	constructor(text, paddingX = 1, paddingY = 1, theme, style) {
		super(text, paddingX, paddingY);
		Object.assign(this, { theme, style });
	}
}

export class Spacer extends Component {
	constructor(lines = 1) {
		super();
		this.lines = lines;
	}
	setLines(lines) {
		this.lines = lines;
	}
	render() {
		return Array.from({ length: this.lines }, () => "");
	}
}

export class SelectList extends Component {
	constructor(items = [], maxVisible = 5, theme, layout) {
		super();
		Object.assign(this, { items, filteredItems: items, maxVisible, theme, layout, selectedIndex: 0 });
	}
	setFilter(filter) {
		this.filteredItems = this.items.filter((item) => item.value.toLowerCase().startsWith(filter.toLowerCase()));
	}
	setSelectedIndex(index) {
		this.selectedIndex = Math.max(0, Math.min(index, this.filteredItems.length - 1));
	}
	getSelectedItem() {
		return this.filteredItems[this.selectedIndex] ?? null;
	}
	render(width) {
		return this.filteredItems.slice(0, this.maxVisible).map((item) => truncateToWidth(item.label ?? item.value, width));
	}
}

export class SettingsList extends Component {
	constructor(items = [], maxVisible = 10, theme, onChange, onCancel, options) {
		super();
		Object.assign(this, { items, maxVisible, theme, onChange, onCancel, options });
	}
	updateValue(id, value) {
		const item = this.items.find((each) => each.id === id);
		if (item) item.currentValue = value;
	}
	render(width) {
		return this.items.slice(0, this.maxVisible).map((item) => truncateToWidth(`${item.label} ${item.currentValue}`, width));
	}
}

export class Input extends Component {
	#value = "";
	getValue() {
		return this.#value;
	}
	setValue(value) {
		this.#value = String(value);
	}
	render(width) {
		return [truncateToWidth(`> ${this.#value}`, width)];
	}
}

export class Editor extends Component {
	#text = "";
	borderColor = (text) => text;
	constructor(tui, theme, options) {
		super();
		Object.assign(this, { tui, theme, options });
	}
	getText() {
		return this.#text;
	}
	getExpandedText() {
		return this.#text;
	}
	getLines() {
		return this.#text.split("\n");
	}
	getCursor() {
		return { line: 0, col: 0 };
	}
	setText(text) {
		this.#text = String(text);
	}
	insertTextAtCursor(text) {
		this.#text += text;
	}
	addToHistory() {}
	setAutocompleteProvider() {}
	setPaddingX() {}
	getPaddingX() {
		return 0;
	}
	isShowingAutocomplete() {
		return false;
	}
	render(width) {
		return wrapTextWithAnsi(this.#text, width);
	}
}

export class Loader extends Text {
	constructor(tui, spinnerColor, messageColor, message = "Loading...") {
		super(message);
		Object.assign(this, { tui, spinnerColor, messageColor });
	}
	start() {}
	stop() {}
	setMessage(message) {
		this.setText(message);
	}
	setIndicator() {}
}

export class CancellableLoader extends Loader {
	#controller = new AbortController();
	get signal() {
		return this.#controller.signal;
	}
	get aborted() {
		return this.#controller.signal.aborted;
	}
}

export class Image extends Component {
	constructor(data, mimeType, theme, options, dimensions) {
		super();
		Object.assign(this, { data, mimeType, theme, options, dimensions });
	}
	render() {
		return [imageFallback(this.mimeType, this.dimensions)];
	}
}

export class HStack extends Container {}
export class VStack extends Container {}
export class ScrollView extends Container {
	scrollTo() {}
}
export class MouseRegion extends Container {}

export class CombinedAutocompleteProvider {
	constructor(commands = [], basePath = "") {
		Object.assign(this, { commands, basePath });
	}
	async getSuggestions() {
		return null;
	}
	applyCompletion(lines, cursorLine, cursorCol) {
		return { lines, cursorLine, cursorCol };
	}
}

export class TUI extends Container {
	terminal = { columns: 80, rows: 24, write() {} };
	start() {}
	stop() {}
	requestRender() {}
	setFocus() {}
	addInputListener() {
		return () => {};
	}
	showOverlay() {
		return { hide() {}, setHidden() {}, isHidden: () => true, focus() {}, unfocus() {} };
	}
	hideOverlay() {}
	hasOverlay() {
		return false;
	}
}
export { TUI as TuiMainScreen, TUI as TuiAltScreen };

export class ProcessTerminal {
	columns = 80;
	rows = 24;
	start() {}
	stop() {}
	write() {}
}

export class StdinBuffer {
	on() {
		return this;
	}
	process() {}
}

export const TUI_KEYBINDINGS = {};

export class KeybindingsManager {
	constructor(definitions = {}) {
		this.definitions = definitions;
	}
	matches(data, name) {
		return this.getKeys(name).some((key) => matchesKey(data, key));
	}
	getKeys(name) {
		return [this.definitions[name]?.defaultKeys ?? []].flat();
	}
	getDefinition(name) {
		return this.definitions[name];
	}
	getConflicts() {
		return [];
	}
	setUserBindings() {}
	getResolvedBindings() {
		return {};
	}
}

const keybindings = new KeybindingsManager({
	"tui.editor.cursorUp": { defaultKeys: "up" },
	"tui.editor.cursorDown": { defaultKeys: "down" },
	"tui.editor.cursorLeft": { defaultKeys: ["left", "ctrl+b"] },
	"tui.editor.cursorRight": { defaultKeys: ["right", "ctrl+f"] },
	"tui.editor.cursorWordLeft": { defaultKeys: ["alt+left", "ctrl+left", "alt+b"] },
	"tui.editor.cursorWordRight": { defaultKeys: ["alt+right", "ctrl+right", "alt+f"] },
	"tui.editor.cursorLineStart": { defaultKeys: ["home", "ctrl+home", "ctrl+a"] },
	"tui.editor.cursorLineEnd": { defaultKeys: ["end", "ctrl+end", "ctrl+e"] },
	"tui.editor.pageUp": { defaultKeys: ["pageUp", "ctrl+pageUp"] },
	"tui.editor.pageDown": { defaultKeys: ["pageDown", "ctrl+pageDown"] },
	"tui.editor.deleteCharBackward": { defaultKeys: "backspace" },
	"tui.editor.deleteCharForward": { defaultKeys: ["delete", "ctrl+d"] },
	"tui.editor.deleteWordBackward": { defaultKeys: ["ctrl+w", "alt+backspace"] },
	"tui.editor.deleteWordForward": { defaultKeys: ["alt+d", "alt+delete"] },
	"tui.editor.deleteToLineStart": { defaultKeys: "ctrl+u" },
	"tui.editor.deleteToLineEnd": { defaultKeys: "ctrl+k" },
	"tui.editor.yank": { defaultKeys: "ctrl+y" },
	"tui.editor.undo": { defaultKeys: "ctrl+-" },
	"tui.input.newLine": { defaultKeys: ["shift+enter", "ctrl+j"] },
	"tui.input.submit": { defaultKeys: "enter" },
	"tui.input.tab": { defaultKeys: "tab" },
	"tui.input.copy": { defaultKeys: "ctrl+c" },
	"tui.select.up": { defaultKeys: "up" },
	"tui.select.down": { defaultKeys: "down" },
	"tui.select.pageUp": { defaultKeys: "pageUp" },
	"tui.select.pageDown": { defaultKeys: "pageDown" },
	"tui.select.confirm": { defaultKeys: "enter" },
	"tui.select.cancel": { defaultKeys: ["escape", "ctrl+c"] },
});

export const getKeybindings = () => keybindings;
export const setKeybindings = () => {};

export const CURSOR_MARKER = "\u001b_pi:c\u0007";
export const isFocusable = (component) => component !== null && typeof component === "object" && "focused" in component;
export const isViewportTUI = () => false;
export const compositeTuiLine = (base) => base;

export const getCapabilities = () => ({ images: null, trueColor: false, hyperlinks: false });
export const detectCapabilities = getCapabilities;
export const resetCapabilitiesCache = () => {};
export const setCapabilities = () => {};
export const setCapabilityOverrides = () => {};
export const getCellDimensions = () => ({ widthPx: 9, heightPx: 18 });
export const setCellDimensions = () => {};
export const allocateImageId = () => 1;
export const deleteKittyImage = () => "";
export const deleteAllKittyImages = () => "";
export const encodeKitty = () => "";
export const encodeITerm2 = () => "";
export const renderImage = () => null;
export const calculateImageRows = () => 1;
export const getImageDimensions = () => null;
export const getPngDimensions = () => null;
export const getJpegDimensions = () => null;
export const getGifDimensions = () => null;
export const getWebpDimensions = () => null;
export const imageFallback = (mimeType, size) => `[Image: ${[mimeType, size && `${size.widthPx}x${size.heightPx}`].filter(Boolean).join(" ")}]`;
export const parseOsc11BackgroundColor = () => undefined;
export const parseTerminalColorSchemeReport = () => undefined;
export const renderLatex = (text) => text;
export const getNativeClipboard = () => undefined;
