// The server side of a WebSocket (RFC 6455), by hand: text messages, fragments, ping and close.

import { createHash } from "node:crypto";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** Accepts the upgrade of a request and returns `{send, close, onMessage, onClose}`. */
export function accept(request, socket, protocol) {
  const key = createHash("sha1").update(request.headers["sec-websocket-key"] + GUID).digest("base64");
  socket.write(["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", `Sec-WebSocket-Accept: ${key}`,
    `Sec-WebSocket-Protocol: ${protocol}`, "", ""].join("\r\n"));
  socket.setNoDelay(true);
  const peer = { onMessage() {}, onClose() {}, send: (text) => write(socket, 1, Buffer.from(text)), close: () => {
    write(socket, 8, Buffer.alloc(0));
    socket.end();
  } };
  let waiting = Buffer.alloc(0);
  let parts = [];
  socket.on("data", (data) => {
    waiting = Buffer.concat([waiting, data]);
    for (;;) {
      const frame = readFrame(waiting);
      if (!frame) return;
      waiting = waiting.subarray(frame.length);
      if (frame.opcode === 8) return socket.end();
      if (frame.opcode === 9) write(socket, 10, frame.payload);
      if (frame.opcode > 2) continue;
      parts.push(frame.payload);
      if (!frame.final) continue;
      const text = Buffer.concat(parts).toString();
      parts = [];
      peer.onMessage(text);
    }
  });
  let closed = false;
  const close = () => {
    if (!closed) peer.onClose();
    closed = true;
  };
  socket.on("close", close);
  socket.on("error", close);
  return peer;
}

function readFrame(buffer) {
  if (buffer.length < 2) return null;
  let length = buffer[1] & 0x7f;
  let at = 2;
  if (length === 126) {
    if (buffer.length < 4) return null;
    length = buffer.readUInt16BE(2);
    at = 4;
  } else if (length === 127) {
    if (buffer.length < 10) return null;
    length = Number(buffer.readBigUInt64BE(2));
    at = 10;
  }
  const isMasked = (buffer[1] & 0x80) !== 0;
  const mask = isMasked ? buffer.subarray(at, at + 4) : null;
  if (isMasked) at += 4;
  if (buffer.length < at + length) return null;
  const payload = Buffer.from(buffer.subarray(at, at + length));
  if (mask) for (let index = 0; index < length; index += 1) payload[index] ^= mask[index & 3];
  return { final: (buffer[0] & 0x80) !== 0, opcode: buffer[0] & 0x0f, payload, length: at + length };
}

function write(socket, opcode, payload) {
  if (!socket.writable) return;
  const { length } = payload;
  const head = length < 126 ? Buffer.from([0x80 | opcode, length]) : length < 65_536 ? Buffer.alloc(4) : Buffer.alloc(10);
  if (head.length === 4) {
    head.set([0x80 | opcode, 126]);
    head.writeUInt16BE(length, 2);
  } else if (head.length === 10) {
    head.set([0x80 | opcode, 127]);
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  socket.write(Buffer.concat([head, payload]));
}
