// Splits chunks of text into lines. A long line comes in very many chunks, which are joined only when it has
// ended.

export function lines(take) {
	let pieces = [];
	return (text) => {
		let from = 0;
		for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
			pieces.push(text.slice(from, end));
			const line = pieces.join("");
			pieces = [];
			from = end + 1;
			take(line);
		}
		if (from < text.length) pieces.push(text.slice(from));
	};
}
