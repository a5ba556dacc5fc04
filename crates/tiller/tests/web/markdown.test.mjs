import assert from "node:assert/strict";
import { test } from "node:test";
import { Chunks, inline, parse } from "../../assets/web/markdown.js";

const paragraph = (...inline) => ({ kind: "paragraph", inline });

test("paragraphs_are_split_at_blank_lines", () => {
  assert.deepEqual(parse("one\n\ntwo"), [paragraph("one"), paragraph("two")]);
});

test("line_break_in_a_paragraph_is_kept", () => {
  assert.deepEqual(parse("one\ntwo"), [paragraph("one", { kind: "break" }, "two")]);
});

test("fence_keeps_its_text_and_language", () => {
  const text = "```rust\nfn main() {}\n\n# not a heading\n```\nafter";
  assert.deepEqual(parse(text), [{ kind: "code", language: "rust", text: "fn main() {}\n\n# not a heading", open: false }, paragraph("after")]);
});

test("fence_without_an_end_is_open", () => {
  assert.equal(parse("~~~\nhalf").at(0).open, true);
});

test("longer_fence_may_contain_a_shorter_one", () => {
  assert.equal(parse("````\n```\n````")[0].text, "```");
});

test("headings_have_levels", () => {
  assert.deepEqual(parse("### Three ###"), [{ kind: "heading", level: 3, inline: ["Three"] }]);
  assert.deepEqual(parse("#hashtag"), [paragraph("#hashtag")]);
});

test("lists_nest_and_keep_their_start", () => {
  const [list] = parse("3. three\n4. four\n   - inner");
  assert.equal(list.start, 3);
  assert.equal(list.items.length, 2);
  assert.equal(list.items[1].blocks[1].kind, "list");
});

test("items_with_blank_lines_between_are_one_list", () => {
  const blocks = parse("- a\n\n- b\n\nafter");
  assert.equal(blocks.length, 2);
  assert.equal(blocks[0].items.length, 2);
  assert.equal(blocks[0].loose, true);
});

test("tasks_are_marked", () => {
  assert.deepEqual(parse("- [x] a\n- [ ] b")[0].items.map(({ task }) => task), [true, false]);
});

test("code_in_an_item_belongs_to_it", () => {
  const [list] = parse("1. a\n   ```sh\n   ls\n   ```\n2. b");
  assert.equal(list.items.length, 2);
  assert.equal(list.items[0].blocks[1].text, "ls");
});

test("year_at_the_beginning_of_a_line_is_no_list", () => {
  assert.equal(parse("It was in\n1984. A good year.").length, 1);
});

test("tables_need_a_rule_with_as_many_cells", () => {
  const [table] = parse("| a | b |\n|---|:-:|\n| 1 | `x|y` |");
  assert.equal(table.kind, "table");
  assert.deepEqual(table.align, ["", "middle"]);
  assert.deepEqual(table.rows, [[["1"], [{ kind: "code", text: "x|y" }]]]);
  assert.equal(parse("a | b\n---")[0].kind, "paragraph");
});

test("emphasis_does_not_break_names", () => {
  assert.deepEqual(inline("snake_case_name 2*3*4"), ["snake_case_name 2", { kind: "emphasis", inline: ["3"] }, "4"]);
  assert.deepEqual(inline("**bold** and *it*"), [{ kind: "strong", inline: ["bold"] }, " and ", { kind: "emphasis", inline: ["it"] }]);
  assert.deepEqual(inline("a ** b"), ["a ** b"]);
});

test("inline_code_is_not_parsed", () => {
  assert.deepEqual(inline("`**x** [a](http://b)`"), [{ kind: "code", text: "**x** [a](http://b)" }]);
});

test("only_web_addresses_are_links", () => {
  assert.deepEqual(inline("[a](https://example.com/x)"), [{ kind: "link", address: "https://example.com/x", inline: ["a"] }]);
  for (const target of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "file:///etc/passwd", "//example.com", "vbscript:x", "https:x", "\u0001javascript:x"]) {
    for (const part of inline(`[a](${target}) <${target}> ![b](${target})`)) assert.notEqual(part.kind, "link", target);
  }
});

test("bare_addresses_end_before_punctuation", () => {
  const links = inline("see (https://example.com/a_(b)), or https://example.com.").filter(({ kind }) => kind === "link");
  assert.deepEqual(links.map(({ inline: [text] }) => text), ["https://example.com/a_(b)", "https://example.com"]);
});

test("html_is_text", () => {
  assert.deepEqual(parse("<script>alert(1)</script>"), [paragraph("<script>alert(1)</script>")]);
});

test("hostile_nesting_ends", () => {
  for (const text of ["> ".repeat(5000) + "x", "- ".repeat(3000) + "x", "[".repeat(5000), "*".repeat(20_000), "**a ".repeat(3000), "`".repeat(5001), "_a".repeat(5000), "|".repeat(3000) + "\n" + "-|".repeat(3000)]) {
    const before = performance.now();
    parse(text);
    assert.ok(performance.now() - before < 3000, text.slice(0, 20));
  }
});

const TEXT = "# Title\n\nA paragraph\nof two lines.\n\n- a\n- b\n\n  still b\n\n- c\n\nText before\n```js\nlet x = 1;\n\nlet y = 2;\n```\nafter\n\n1. one\n\n   ```\n   in a list\n   ```\n\n2. two\n\n> quote\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend";

/** What a stream shows at its end, if it gets the text in pieces of this length. */
function streamed(text, length) {
  const chunks = new Chunks();
  const done = [];
  let open = "";
  for (let at = 0; at < text.length; at += length) {
    const step = chunks.push(text.slice(at, at + length));
    done.push(...step.done);
    open = step.open;
  }
  return [...done, open].flatMap(parse);
}

test("stream_shows_the_same_as_the_whole_text", () => {
  for (const length of [1, 2, 3, 7, 50, 1000]) assert.deepEqual(streamed(TEXT, length), parse(TEXT), `pieces of ${length}`);
});

test("finished_chunks_are_joined_to_the_text", () => {
  const chunks = new Chunks();
  let text = "";
  let open = "";
  for (const character of TEXT) {
    const step = chunks.push(character);
    text += step.done.join("");
    open = step.open;
  }
  assert.equal((text + open).replace(/\n+/g, "\n"), TEXT.replace(/\n+/g, "\n"));
});

test("open_chunk_stays_short_in_a_long_answer", () => {
  const chunks = new Chunks();
  let longest = 0;
  for (let at = 0; at < 2000; at += 1) longest = Math.max(longest, chunks.push(`Paragraph ${at} of many.\n\n`).open.length);
  assert.ok(longest < 100, `${longest}`);
});

test("fence_is_known_while_it_is_open", () => {
  const chunks = new Chunks();
  chunks.push("text\n\n```js\nlet x");
  assert.equal(chunks.inFence, true);
  chunks.push(" = 1;\n```\n");
  assert.equal(chunks.inFence, false);
});
