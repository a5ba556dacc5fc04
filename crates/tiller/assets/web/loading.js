// Joins stored messages and live records, which meet while a session is read.

/** How many messages are read at once. */
export const PAGE = 60;

/**
 * The records that came while messages were read, without those that the messages contain. A
 * message that had ended is among the messages that were read; one that is open is not.
 */
export function recordsAfter(records) {
  const others = [];
  let open = [];
  for (const record of records) {
    if (record.type === "message_start") open = [record];
    else if (record.type === "message_update") open.push(record);
    else if (record.type === "message_end") open = [];
    else others.push(record);
  }
  return others.concat(open.length && open[0].type === "message_start" ? open : []);
}

/** Reads the newest messages. `{messages, offset}`: the first of them is number `offset`. */
export async function newestMessages(request, count) {
  let offset = Math.max(0, count - PAGE);
  let data = await request({ type: "get_messages", offset, limit: 2 * PAGE });
  if (!data.messages.length && offset > 0) {
    offset = Math.max(0, data.total - PAGE);
    data = await request({ type: "get_messages", offset, limit: 2 * PAGE });
  }
  let messages = data.messages;
  while (data.nextOffset !== undefined) {
    data = await request({ type: "get_messages", offset: data.nextOffset, limit: 2 * PAGE });
    messages = messages.concat(data.messages);
  }
  return { messages, offset };
}

/** Reads the page before the message with this number. */
export async function earlierMessages(request, before) {
  const offset = Math.max(0, before - PAGE);
  const messages = [];
  let at = offset;
  while (at < before) {
    const data = await request({ type: "get_messages", offset: at, limit: before - at });
    if (!data.messages.length) break;
    messages.push(...data.messages);
    at += data.messages.length;
  }
  return { messages, offset };
}
