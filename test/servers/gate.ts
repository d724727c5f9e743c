/**
 * A proxy in front of a server: closed, it refuses connections; silent, it accepts them and sends nothing.
 */
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';

export interface Gate {
  /** The server's URL by way of the gate. */
  url: string;
  close(): Promise<void>;
  open(): Promise<void>;
  /**
   * From here on nothing comes through, either way, and no connection ends. With a pattern: on connections
   * whose client has sent such text.
   */
  silence(sent?: RegExp): void;
  /** Resets all connections, as a machine does that has forgotten them. */
  reset(): void;
  /** What was held back comes through again, on the connections that are still there. */
  speak(): void;
}

export interface GateOptions {
  /** What the server's answers become on their way. */
  rewrite?: (answer: Buffer) => Buffer;
  /** What the client sends, and all that follows it on the connection, waits for the promise. */
  hold?: (sent: Buffer) => Promise<void> | undefined;
  /** The same for what the server sends. `sent` is the beginning of what the client has sent on the connection. */
  holdAnswer?: (answer: Buffer, sent: string) => Promise<void> | undefined;
}

/** Text that is remembered of a client, for `silence`. */
const sentTextMax = 100_000;

export async function startGate(
  url: string,
  { rewrite = (answer) => answer, hold = () => undefined, holdAnswer = () => undefined }: GateOptions = {},
): Promise<Gate> {
  const target = new URL(url);
  const sockets = new Map<Socket, { text: string }>();
  let port = 0;
  let isSilent = false;
  const newServer = () =>
    createServer((inside) => {
      const outside = connect(Number(target.port), target.hostname);
      const sent = { text: '' };
      for (const socket of [inside, outside]) {
        sockets.set(socket, sent);
        // When one side closes, the other is closed too.
        socket.on('error', () => socket.destroy());
        socket.on('close', () => {
          sockets.delete(socket);
          inside.destroy();
          outside.destroy();
        });
      }
      inside.on('data', (chunk) => {
        if (sent.text.length < sentTextMax) sent.text += chunk.toString('latin1');
        const sending = Buffer.from(chunk);
        passOn(sending, [inside, outside], hold(sending));
      });
      outside.on('data', (chunk) => {
        const answer = rewrite(Buffer.from(chunk));
        passOn(answer, [outside, inside], holdAnswer(answer, sent.text));
      });
      if (isSilent) for (const socket of [inside, outside]) socket.pause();
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
    silence: (pattern) => {
      isSilent = pattern === undefined;
      for (const [socket, { text }] of sockets) if (pattern?.test(text) !== false) socket.pause();
    },
    reset: () => {
      for (const socket of sockets.keys()) socket.resetAndDestroy();
    },
    speak: () => {
      isSilent = false;
      for (const socket of sockets.keys()) socket.resume();
    },
    open: () => {
      server = newServer();
      return open();
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets.keys()) socket.destroy();
      }),
  };
}

function passOn(chunk: Buffer, [from, to]: readonly [Socket, Socket], held: Promise<void> | undefined): void {
  if (held === undefined) return void to.write(chunk);
  from.pause();
  void held.then(() => {
    to.write(chunk);
    from.resume();
  });
}
