import assert from "node:assert/strict";
import { test } from "node:test";
import { countRows, numberedRows, plannedRows, rowsOf, unifiedRows } from "../../assets/web/diff.js";
import { chartShapes, ContextHistory, contextOf } from "../../assets/web/meter.js";
import { recordsAfter } from "../../assets/web/loading.js";
import { age, matches, shortPath } from "../../assets/web/sessions.js";
import { completions, readDraft } from "../../assets/web/composer.js";
import { dollars, imageAddress, oneLine, safeAddress, seconds, short, textOf, visible } from "../../assets/web/text.js";

test("terminal_escapes_are_removed", () => {
  assert.equal(visible("\x1b[31mred\x1b[0m \x1b]0;title\x07x \x1b]8;;http://a\x1b\\link"), "red x link");
});

test("control_characters_are_symbols", () => {
  assert.equal(visible("a\0b\u0007c\x7f"), "a␀b␇c␡");
  assert.equal(visible("a\tb\nc\r\nd"), "a\tb\nc\nd");
});

test("bidirectional_controls_are_code_points", () => {
  assert.equal(visible("a\u202etxt\u202c\u2066b\u2069\ufeff"), "a⟨U+202E⟩txt⟨U+202C⟩⟨U+2066⟩b⟨U+2069⟩⟨U+FEFF⟩");
});

test("ordinary_text_in_all_scripts_is_kept", () => {
  for (const text of ["שלום", "مرحبا", "日本語", "👩‍👩‍👧", "ñ — “x”"]) assert.equal(visible(text), text);
});

test("line_for_a_list_is_short_and_single", () => {
  assert.equal(oneLine("  a\n\tb  "), "a b");
  assert.equal(oneLine("x".repeat(500), 10), "xxxxxxxxx…");
  assert.equal(oneLine(undefined), "");
});

test("only_web_addresses_are_safe", () => {
  assert.equal(safeAddress("https://example.com/a b"), "https://example.com/a%20b");
  for (const address of ["javascript:x", " https://a", "ftp://a", "https://", "http:\\\\a"]) assert.equal(safeAddress(address), null, address);
});

test("image_addresses_need_a_known_type_and_base64", () => {
  assert.equal(imageAddress({ data: "AAAA", mimeType: "image/png" }), "data:image/png;base64,AAAA");
  assert.equal(imageAddress({ data: "AAAA", mimeType: "image/svg+xml" }), null);
  assert.equal(imageAddress({ data: "\"><script>", mimeType: "image/png" }), null);
});

test("content_of_old_sessions_is_a_string", () => {
  assert.equal(textOf("a"), "a");
  assert.equal(textOf([{ type: "text", text: "a" }, { type: "image" }, { type: "text", text: "b" }]), "a\nb");
  assert.equal(textOf(null), "");
});

test("numbers_are_short", () => {
  assert.deepEqual([0, 999, 1000, 1549, 99_999, 999_999, 1_234_567].map(short), ["0", "999", "1k", "1.5k", "100k", "1M", "1.2M"]);
  assert.deepEqual([0, 0.0012, 1.5].map(dollars), ["$0", "$0.0012", "$1.50"]);
  assert.deepEqual([5, 1500, 61_000].map(seconds), ["5 ms", "1.5 s", "1 min 1 s"]);
});

test("numbered_diff_has_signs_and_numbers", () => {
  assert.deepEqual(numberedRows(" 1 alpha\n-2 beta\n+2 BETA\n 3 gamma\n   ..."), [
    { kind: "same", number: "1", text: "alpha" }, { kind: "del", number: "2", text: "beta" }, { kind: "add", number: "2", text: "BETA" },
    { kind: "same", number: "3", text: "gamma" }, { kind: "hunk", number: "", text: "…" }]);
});

test("numbered_diff_keeps_indentation", () => {
  assert.deepEqual(numberedRows("+10     four spaces")[0], { kind: "add", number: "10", text: "    four spaces" });
});

test("unified_diff_counts_lines", () => {
  const rows = unifiedRows("--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n");
  assert.deepEqual(rows.slice(3), [{ kind: "same", number: "1", text: "alpha" }, { kind: "del", number: "2", text: "beta" }, { kind: "add", number: "2", text: "BETA" }, { kind: "same", number: "3", text: "gamma" }]);
  assert.deepEqual(countRows(rows), { added: 1, removed: 1, short: "+1 −1", words: "1 lines added, 1 removed" });
});

test("planned_edit_shows_both_texts", () => {
  assert.deepEqual(plannedRows([{ oldText: "a\n", newText: "b" }]).map(({ kind, text }) => kind + text), ["dela", "addb"]);
  assert.deepEqual(plannedRows("nonsense"), []);
  assert.equal(rowsOf({}), null);
});

test("context_counts_cached_tokens", () => {
  assert.equal(contextOf({ input: 1, output: 2, cacheRead: 3, cacheWrite: 4 }), 10);
  assert.equal(contextOf({ totalTokens: 7 }), 7);
});

test("chart_has_a_line_and_marks_of_compactions", () => {
  const history = new ContextHistory();
  history.add([{ role: "assistant", usage: { input: 100 } }, { role: "user" }, { role: "compactionSummary" }, { role: "assistant", usage: { input: 50 } }]);
  history.add([{ role: "assistant", usage: { input: 10 } }], { before: true });
  const shapes = chartShapes(history.points, 200, 100, 50);
  assert.match(shapes.line, /^M0 [\d.]+L50 [\d.]+L100 [\d.]+$/);
  assert.deepEqual(shapes.compactions, [75]);
  assert.equal(shapes.most, 100);
  assert.notEqual(shapes.limit, null);
  assert.equal(chartShapes([], 200, 100, 50), null);
});

test("records_of_stored_messages_are_dropped", () => {
  const records = [
    { type: "agent_start" }, { type: "message_update", n: 0 }, { type: "message_end", n: 0 },
    { type: "message_start", n: 1 }, { type: "message_end", n: 1 }, { type: "tool_execution_start" },
    { type: "message_start", n: 2 }, { type: "message_update", n: 2 },
  ];
  assert.deepEqual(recordsAfter(records), [records[0], records[5], records[6], records[7]]);
});

test("all_words_of_a_search_must_match", () => {
  assert.ok(matches(["har", "ADA".toLowerCase()], ["Harbour", "/home/ada"]));
  assert.ok(!matches(["har", "bob"], ["Harbour", undefined]));
  assert.ok(matches([], []));
});

test("paths_and_ages_are_short", () => {
  assert.equal(shortPath("/home/ada/code/harbour"), "…/code/harbour");
  assert.equal(shortPath("/tmp"), "/tmp");
  assert.equal(age(0, 5 * 60_000), "5 min");
  assert.equal(age("nonsense"), "");
});

test("draft_is_a_prompt_a_steer_a_follow_up_or_a_shell_command", () => {
  assert.deepEqual(readDraft("hi", { running: false }), { kind: "prompt" });
  assert.deepEqual(readDraft("hi", { running: true }), { kind: "steer" });
  assert.deepEqual(readDraft("hi", { running: true, followUp: true }), { kind: "follow_up" });
  assert.deepEqual(readDraft("!! ls", { running: true }), { kind: "shell", command: "ls", hidden: true });
  assert.equal(readDraft("!", { running: false }), null);
});

test("completion_prefers_the_beginning_of_a_name", () => {
  const commands = [{ name: "skill:fix" }, { name: "fix-it" }, { name: "other" }];
  assert.deepEqual(completions("/fix", commands).map(({ name }) => name), ["fix-it", "skill:fix"]);
  assert.deepEqual(completions("/fix it", commands), []);
  assert.deepEqual(completions("text", commands), []);
});
