// Just enough of a WebSocket server to send events to one's own browser while developing.
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

const MAGIC = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'; // of RFC 6455

export class Sockets {
  private readonly open = new Set<Duplex>();

  accept(request: IncomingMessage, socket: Duplex): void {
    const key = String(request.headers['sec-websocket-key']);
    const answer = createHash('sha1').update(key + MAGIC).digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${answer}\r\n\r\n`,
    );
    this.open.add(socket);
    const leave = () => this.open.delete(socket);
    socket.on('close', leave).on('error', leave).on('data', (data: Buffer) => {
      if (((data[0] ?? 0) & 0xf) === 8) socket.end(); // the browser says goodbye
    });
  }

  send(message: object): void {
    const body = Buffer.from(JSON.stringify(message));
    const head = body.length < 126 ? Buffer.from([0x81, body.length]) : Buffer.from([0x81, 126, body.length >> 8, body.length & 255]);
    for (const socket of this.open) socket.write(Buffer.concat([head, body]));
  }
}
