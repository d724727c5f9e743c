/** A door in front of a server: closed, the server is gone for those who come through it. */
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';

export interface Gate {
  /** The server's URL by way of the gate. */
  url: string;
  close(): Promise<void>;
  open(): Promise<void>;
}

export async function startGate(url: string): Promise<Gate> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let port = 0;
  const newServer = () =>
    createServer((inside) => {
      const outside = connect(Number(target.port), target.hostname);
      for (const socket of [inside, outside]) {
        sockets.add(socket);
        // Either side going away takes the other with it.
        socket.on('error', () => socket.destroy());
        socket.on('close', () => {
          sockets.delete(socket);
          inside.destroy();
          outside.destroy();
        });
      }
      inside.pipe(outside).pipe(inside);
    });
  let server = newServer();
  const open = () =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, '127.0.0.1', () => {
        port = (server.address() as AddressInfo).port; // A TCP server that listens has an AddressInfo.
        resolve();
      });
    });
  await open();
  const through = new URL(url);
  through.hostname = '127.0.0.1';
  through.port = String(port);
  return {
    url: through.href,
    open: () => {
      server = newServer();
      return open();
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
