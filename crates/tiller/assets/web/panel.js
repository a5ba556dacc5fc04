// The details beside the conversation: tokens, cost, the context chart and the todo list.

import { $, fill, h, setText, svg } from "./dom.js";
import { chartShapes } from "./meter.js";
import { dollars, oneLine, short } from "./text.js";

/** Shows `get_session_stats`. */
export function showStats({ tokens = {}, cost = 0, contextUsage, userMessages, toolCalls } = {}) {
  const rows = [["Input", short(tokens.input ?? 0)], ["Output", short(tokens.output ?? 0)]];
  if (tokens.cacheRead || tokens.cacheWrite) rows.push(["From cache", short(tokens.cacheRead ?? 0)], ["To cache", short(tokens.cacheWrite ?? 0)]);
  rows.push(["Cost", dollars(cost)], ["Prompts", short(userMessages ?? 0)], ["Tool calls", short(toolCalls ?? 0)]);
  fill($("usage"), rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  const bar = $("context-bar");
  bar.hidden = !contextUsage;
  if (!contextUsage) return setText($("context-text"), "The model's window is not known.");
  const percent = Math.max(0, Math.min(100, contextUsage.percent ?? 0));
  const text = `${short(contextUsage.tokens ?? 0)} of ${short(contextUsage.contextWindow)} tokens, ${percent < 1 ? "less than 1" : Math.round(percent)} %`;
  bar.setAttribute("aria-valuenow", String(Math.round(percent)));
  bar.setAttribute("aria-valuetext", text);
  bar.firstElementChild.style.width = `${percent}%`;
  bar.dataset.full = String(percent > 80);
  setText($("context-text"), text);
}

const [WIDTH, HEIGHT] = [240, 64];

/** Draws how many tokens each answer had in its context. */
export function showChart(points, window) {
  const figure = $("chart");
  const shapes = chartShapes(points, window, WIDTH, HEIGHT);
  figure.hidden = !shapes;
  if (!shapes) return;
  const answers = points.filter((point) => !point.compaction).length;
  const words = `Context after each of ${answers} ${answers === 1 ? "answer" : "answers"}, at most ${short(shapes.most)} tokens`;
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": words },
    svg("path", { class: "area", d: shapes.area }),
    shapes.compactions.map((x) => svg("path", { class: "compaction", d: `M${x} 0V${HEIGHT}` })),
    shapes.limit === null ? null : svg("path", { class: "limit", d: `M0 ${shapes.limit}H${WIDTH}` }),
    svg("path", { class: "line", d: shapes.line }));
  fill(figure, drawing, h("figcaption", {}, words, shapes.limit === null ? "" : "; the dashed line is the window", shapes.compactions.length ? "; upright lines are summaries" : ""));
}

const MARKS = { pending: ["○", "open"], in_progress: ["◐", "in progress"], completed: ["●", "done"], abandoned: ["×", "given up"] };

/** Shows the todo list. */
export function showTodos(phases) {
  const list = Array.isArray(phases) ? phases : [];
  $("todos").hidden = !list.length;
  fill($("todos").lastElementChild, list.map((phase) => [
    h("h4", {}, oneLine(phase.name, 80)),
    h("ul", {}, (phase.tasks ?? []).map((task) => {
      const [mark, words] = MARKS[task.status] ?? MARKS.pending;
      return h("li", { class: MARKS[task.status] ? task.status : "pending" },
        h("span", { "aria-hidden": "true" }, mark), h("span", { class: "sr" }, `${words}: `),
        h("span", {}, oneLine(task.content, 300), task.details ? h("small", {}, oneLine(task.details, 300)) : null));
    })),
  ]));
}

/** The todo list that a result of `todo_write` has, or null. */
export function todosOf({ toolName, details, isError }) {
  return toolName === "todo_write" && !isError && Array.isArray(details?.phases) ? details.phases : null;
}
