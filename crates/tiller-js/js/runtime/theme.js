// A theme without colours: programs, not people, read what extensions style.

const plain = (_colour, text) => String(text ?? "");
const same = (text) => String(text ?? "");
const none = () => "";
const keep = () => same;

export class Theme {
	name = "plain";
	sourcePath = undefined;
	fg = plain;
	bg = plain;
	bold = same;
	italic = same;
	underline = same;
	inverse = same;
	strikethrough = same;
	dim = same;
	getFgAnsi = none;
	getBgAnsi = none;
	getColorMode = () => "truecolor";
	getThinkingBorderColor = keep;
	getBashModeBorderColor = keep;
}

export const theme = new Theme();
