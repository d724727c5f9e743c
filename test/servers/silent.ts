/** A server that accepts connections and never answers. */
import { type AddressInfo, type Socket, createServer } from 'node:net';

export interface SilentServer {
  /** Its host and port. */
  address: string;
  /** Resolves with the first connection. */
  connected: Promise<void>;
  stop(): Promise<void>;
}

export async function startSilentServer(): Promise<SilentServer> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    // A peer that is cut off in the middle of a write resets the connection.
    socket.on('error', () => socket.destroy()).on('close', () => sockets.delete(socket));
    socket.resume();
  });
  const connected = new Promise<void>((resolve) => void server.once('connection', () => resolve()));
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return {
    // A TCP server that listens has an AddressInfo.
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    connected,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
