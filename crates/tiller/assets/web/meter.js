// Counts tokens and cost, and how full the context window is after each answer.

/** The tokens that an answer and its request took in the context window. */
export function contextOf(usage = {}) {
  const sum = (usage.input ?? 0) + (usage.cacheRead ?? 0) + (usage.cacheWrite ?? 0) + (usage.output ?? 0);
  return sum || (usage.totalTokens ?? 0);
}

/** The points of the chart: `{tokens, cost}` for an answer, `{compaction: true}` between answers. */
export class ContextHistory {
  points = [];

  clear() {
    this.points = [];
  }

  /** Adds messages in their order; earlier ones go before the others. */
  add(messages, { before = false } = {}) {
    const points = messages.map(pointOf).filter(Boolean);
    this.points = before ? points.concat(this.points) : this.points.concat(points);
  }

  addCompaction() {
    this.points = this.points.concat({ compaction: true });
  }
}

function pointOf(message) {
  if (message.role === "compactionSummary") return { compaction: true };
  if (message.role !== "assistant") return null;
  const tokens = contextOf(message.usage);
  return tokens ? { tokens, cost: message.usage?.cost?.total ?? 0 } : null;
}

/**
 * The shapes of a chart in a box of `width` × `height`: the outline, the area below it, the lines
 * of compactions, and the height of the window, if it is near enough to be drawn.
 */
export function chartShapes(points, window, width, height) {
  const answers = points.filter((point) => !point.compaction);
  if (!answers.length) return null;
  const most = Math.max(...answers.map((point) => point.tokens));
  // A window much larger than what is used would flatten the outline.
  const limit = window && most > window / 5 ? window : null;
  const top = Math.max(most, limit ?? 0) * 1.06;
  const step = answers.length > 1 ? width / (answers.length - 1) : width;
  const place = (value) => Math.round(value * 10) / 10;
  const y = (tokens) => place(height - (tokens / top) * height);
  const outline = [];
  const compactions = [];
  let at = 0;
  for (const point of points) {
    if (point.compaction) {
      compactions.push(place(Math.max(0, (at - 0.5) * step)));
      continue;
    }
    outline.push([place(at * step), y(point.tokens)]);
    at += 1;
  }
  if (outline.length === 1) outline.push([width, outline[0][1]]);
  const line = "M" + outline.map((pair) => pair.join(" ")).join("L");
  return { line, area: `${line}L${width} ${height}L0 ${height}Z`, compactions, limit: limit ? y(limit) : null, most };
}
