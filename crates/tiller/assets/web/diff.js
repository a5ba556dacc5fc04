// Reads diffs into rows. A row is `{kind, number, text}` with a kind of add, del, same or hunk.

/** The rows of `details.diff` of the tool `edit`: a sign, a line number and the text. */
export function numberedRows(diff) {
  return String(diff).split("\n").map((line) => {
    const match = /^([ +-])(\s*\d*) ?(.*)$/s.exec(line);
    if (!match) return { kind: "hunk", number: "", text: line };
    const [, sign, number, text] = match;
    if (!number.trim() && text.trim() === "...") return { kind: "hunk", number: "", text: "…" };
    return { kind: KINDS[sign], number: number.trim(), text };
  });
}

/** The rows of a patch in unified format. */
export function unifiedRows(patch) {
  const rows = [];
  let [before, after] = [0, 0];
  for (const line of String(patch).split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (hunk) {
      [before, after] = [Number(hunk[1]), Number(hunk[2])];
      rows.push({ kind: "hunk", number: "", text: line });
    } else if (/^(---|\+\+\+) /.test(line) && before === 0) {
      rows.push({ kind: "hunk", number: "", text: line });
    } else if (line.startsWith("+")) {
      rows.push({ kind: "add", number: String(after++), text: line.slice(1) });
    } else if (line.startsWith("-")) {
      rows.push({ kind: "del", number: String(before++), text: line.slice(1) });
    } else if (line.startsWith(" ")) {
      rows.push({ kind: "same", number: String(after++), text: line.slice(1) });
      before += 1;
    } else if (line) {
      rows.push({ kind: "hunk", number: "", text: line });
    }
  }
  return rows;
}

/** The rows of an `edit` call that has no result yet: what is to be replaced, and by what. */
export function plannedRows(edits) {
  const rows = [];
  for (const edit of Array.isArray(edits) ? edits : []) {
    if (rows.length) rows.push({ kind: "hunk", number: "", text: "…" });
    for (const text of lines(edit?.oldText)) rows.push({ kind: "del", number: "", text });
    for (const text of lines(edit?.newText)) rows.push({ kind: "add", number: "", text });
  }
  return rows;
}

/** The rows of a tool result's details, or null if it has no diff. */
export function rowsOf(details) {
  if (typeof details?.diff === "string" && details.diff) return numberedRows(details.diff);
  if (typeof details?.patch === "string" && details.patch) return unifiedRows(details.patch);
  return null;
}

/** "+3 −1", and the same in words. */
export function countRows(rows) {
  const added = rows.filter((row) => row.kind === "add").length;
  const removed = rows.filter((row) => row.kind === "del").length;
  return { added, removed, short: `+${added} −${removed}`, words: `${added} lines added, ${removed} removed` };
}

const KINDS = { "+": "add", "-": "del", " ": "same" };
const lines = (text) => (typeof text === "string" && text ? text.replace(/\n$/, "").split("\n") : []);
