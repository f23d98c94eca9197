// The server's half of a WebSocket, as much as the page needs: text frames, ping, close.
import { createHash } from "node:crypto";

export function accept(request, socket, { text, close }) {
  const key = createHash("sha1").update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${key}\r\nSec-WebSocket-Protocol: punctual.v1\r\n\r\n`);
  const frame = (opcode, bytes) => {
    const head = bytes.length < 126 ? Buffer.from([0x80 | opcode, bytes.length]) : bytes.length < 65_536 ? Buffer.from([0x80 | opcode, 126, bytes.length >> 8, bytes.length & 255]) : null;
    if (head) return Buffer.concat([head, bytes]);
    const long = Buffer.alloc(10);
    long[0] = 0x80 | opcode;
    long[1] = 127;
    long.writeBigUInt64BE(BigInt(bytes.length), 2);
    return Buffer.concat([long, bytes]);
  };
  let held = Buffer.alloc(0);
  socket.on("data", (part) => {
    held = Buffer.concat([held, part]);
    for (;;) {
      if (held.length < 6) return;
      let length = held[1] & 127;
      let at = 2;
      if (length === 126) (length = held.readUInt16BE(2)), (at = 4);
      if (held.length < at + 4 + length) return;
      const mask = held.subarray(at, at + 4);
      const bytes = Buffer.from(held.subarray(at + 4, at + 4 + length)).map((byte, n) => byte ^ mask[n % 4]);
      const opcode = held[0] & 15;
      held = held.subarray(at + 4 + length);
      if (opcode === 8) return void socket.end();
      if (opcode === 9) socket.write(frame(10, bytes));
      if (opcode === 1) text(bytes.toString("utf8"));
    }
  });
  socket.on("close", close);
  socket.on("error", () => socket.destroy());
  return {
    send: (value) => socket.writable && socket.write(frame(1, Buffer.from(JSON.stringify(value)))),
    end: (code) => socket.end(frame(8, Buffer.from([code >> 8, code & 255]))),
  };
}
