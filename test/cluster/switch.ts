/** The smallest balancer: each new connection goes to the first server of a list that accepts it. */
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';

export interface Switch {
  readonly url: string;
  /** For connections from now on; open ones stay where they are. */
  send(...serverUrls: readonly string[]): void;
  close(): Promise<void>;
}

export async function startSwitch(): Promise<Switch> {
  const sockets = new Set<Socket>();
  let targets: readonly string[] = [];
  const server = createServer((inside) => {
    sockets.add(inside);
    inside.on('error', () => inside.destroy());
    inside.on('close', () => sockets.delete(inside));
    attach(inside, targets);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo; // A TCP server that listens has an AddressInfo.
  return {
    url: `http://127.0.0.1:${port}`,
    send: (...serverUrls) => {
      targets = serverUrls;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

function attach(inside: Socket, [first, ...others]: readonly string[]): void {
  if (first === undefined) {
    inside.destroy();
    return;
  }
  const { hostname, port } = new URL(first);
  const outside = connect(Number(port), hostname);
  let isConnected = false;
  outside.once('connect', () => {
    isConnected = true;
    inside.pipe(outside);
    outside.pipe(inside);
    inside.once('close', () => outside.destroy());
    outside.once('close', () => inside.destroy());
  });
  outside.on('error', () => {
    outside.destroy();
    if (!isConnected) attach(inside, others);
  });
}
