// The YAML block at the head of a Markdown file.

import { sync } from "tiller:host";

export function parseFrontmatter(source) {
	return sync("text.frontMatter", String(source).toWellFormed());
}

export function stripFrontmatter(source) {
	return parseFrontmatter(source).body;
}
