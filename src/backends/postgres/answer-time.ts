/** How long PostgreSQL may take to answer: one that falls silent is noticed here, and not by TCP many minutes later. */
import { Socket } from 'node:net';
import { StoaError } from '../../errors.js';

/** What the driver knows of the server when it asks for a socket. */
export interface SocketTarget {
  readonly host: readonly string[];
  readonly port: readonly number[];
  /** Of a socket in the file system. */
  readonly path: string | false;
}

/** The server ends a statement after the time itself, if it lives; only then is it waited for a little longer, in vain. */
const graceShare = 0.2;

/** Of one pool. */
export class AnswerTime {
  /** A start may change large tables; once the tables are there, statements are short. 0 is no limit, as PostgreSQL has it. */
  secondsMax: number;
  /** Statements and transactions that somebody waits for. */
  underWay = 0;
  readonly #sockets = new Set<Socket>();

  constructor(secondsMax: number) {
    this.secondsMax = secondsMax;
  }

  /** A connection of the pool, as the driver would make it. */
  readonly connect = ({ host: [host = 'localhost'], port: [port = 5432], path }: SocketTarget): Socket => {
    // Under TLS the driver takes all listeners off a socket, so that its close is not heard.
    for (const known of this.#sockets) if (known.destroyed) this.#sockets.delete(known);
    const socket = new Socket();
    this.#sockets.add(socket);
    // The driver reads the name of the host, for TLS, where it puts it itself.
    Object.assign(socket, { host, port });
    return path === false ? socket.connect(port, host) : socket.connect(path);
  };

  /** What comes of the work, or a refusal when the server takes too long for it. */
  within<T>(work: PromiseLike<T>, onLate: () => void = () => undefined): Promise<T> {
    this.underWay += 1;
    const answered = new Promise<T>((resolve, reject) => {
      const stop = this.limit((late) => {
        reject(late);
        onLate();
      });
      work.then(
        (result) => {
          stop();
          resolve(result);
        },
        (error: unknown) => {
          stop();
          reject(error as Error); // What the driver refuses with.
        },
      );
    });
    return answered.finally(() => (this.underWay -= 1));
  }

  /**
   * Calls back unless it is stopped in time. Connections from which nothing came since the time was over
   * are given up then: the one that the answer should have come from is among them, unless the server is only slow.
   */
  limit(onLate: (late: StoaError) => void): () => void {
    const seconds = this.secondsMax;
    if (seconds === 0) return () => undefined;
    const graceMs = seconds * 1_000 * graceShare;
    let timer = setTimeout(() => {
      const heardBytes = new Map([...this.#sockets].map((socket) => [socket, socket.bytesRead]));
      timer = setTimeout(() => {
        const silence = Object.assign(new Error(`no answer within ${seconds} s`), { code: 'ETIMEDOUT' });
        onLate(new StoaError('backend_unavailable', `PostgreSQL did not answer within ${seconds} s.`, { fix: 'Check that the server runs and can be reached, and what its statements wait for.', cause: silence }));
        for (const [socket, bytes] of heardBytes) if (socket.bytesRead === bytes) socket.destroy(silence);
      }, graceMs);
    }, seconds * 1_000);
    return () => clearTimeout(timer);
  }

  /** Lets go of connections that the server does not close. */
  end(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}
