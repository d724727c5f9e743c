/**
 * Limits how long PostgreSQL may take to answer. Without it, TCP reports a silent server only after many
 * minutes.
 */
import type { Socket } from 'node:net';
import { StoaError } from '../../../core/errors.js';
import { type TlsMode, openSocket } from './sockets.js';

/** The servers of the URL, as the driver passes them when it needs a socket. */
export interface DriverTarget {
  readonly host: readonly string[];
  readonly port: readonly number[];
  /** The path of a Unix socket. */
  readonly path: string | false;
  /** The role that the server must have. The driver disconnects from servers with another role. */
  readonly target_session_attrs?: string | null;
  readonly connect_timeout: number;
}

/**
 * PostgreSQL ends a statement itself after this share of the limit, so a live server has always answered at the
 * limit.
 */
const serverShare = 5 / 6;

/** The time limit of a statement in PostgreSQL. */
export function serverLimitMs(secondsMax: number): number {
  return Math.round(secondsMax * 1_000 * serverShare);
}

/** The limit and the connections of one pool. */
export class AnswerTime {
  /** Longer during a start, which may change large tables. 0 means no limit, as in PostgreSQL. */
  secondsMax: number;
  /** Statements and transactions that have not ended. */
  underWay = 0;
  /** Each with the index of its server in the URL. */
  readonly #sockets = new Map<Socket, number>();
  /** The index of the server for new connections. */
  #serverIndex = 0;
  #comparison: NodeJS.Timeout | undefined;
  readonly #tls: TlsMode | false;

  constructor(secondsMax: number, tls: TlsMode | false = false) {
    this.secondsMax = secondsMax;
    this.#tls = tls;
  }

  /** Connects as the driver would. */
  readonly connect = (target: DriverTarget): Socket | Promise<Socket> => {
    this.#forgetEnded(target);
    const {
      host: { [this.#serverIndex]: host = 'localhost' },
      port: { [this.#serverIndex]: port = 5432 },
      path,
      connect_timeout: connectSecondsMax,
    } = target;
    const serverIndex = this.#serverIndex;
    return openSocket({ host, port, path, tls: this.#tls, connectSecondsMax }, (socket, below) => {
      if (below !== undefined) this.#sockets.delete(below);
      this.#sockets.set(socket, serverIndex);
    });
  };

  /**
   * After a connection that failed, was lost, or reached a server of the wrong role, the next server is
   * tried.
   */
  #forgetEnded({ host, target_session_attrs: wanted = null }: DriverTarget): void {
    for (const [socket, index] of this.#sockets) {
      if (!socket.destroyed) continue;
      this.#sockets.delete(socket);
      const endedWell = socket.errored === null && socket.bytesRead > 0 && wanted === null;
      if (index === this.#serverIndex && !endedWell) this.#serverIndex = (index + 1) % host.length;
    }
  }

  /** The result of the work, or an error if the server takes too long. */
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
          reject(error); // The driver's own error.
        },
      );
    });
    return answered.finally(() => (this.underWay -= 1));
  }

  /**
   * Calls `onLate` unless the returned function is called in time. Then it also closes every connection that
   * received no byte for nearly the whole time. The connection of the late answer is one of them. A
   * connection to a live server is not: that server had to end any statement of the connection within the
   * time, and this sends bytes.
   */
  limit(onLate: (late: StoaError) => void): () => void {
    const seconds = this.secondsMax;
    if (seconds === 0) return () => undefined;
    // Bytes are compared from a moment after the start, and for longer than a live server lets a statement run. So a
    // statement that another connection starts just before that moment has ended before the comparison.
    const untilFirstCountMs = (seconds * 1_000 - serverLimitMs(seconds)) / 2;
    const silentMs = seconds * 1_000 - untilFirstCountMs;
    let timer = setTimeout(() => {
      const received = this.#receivedBytes();
      timer = setTimeout(() => {
        const silence = Object.assign(new Error(`no answer within ${seconds} s`), { code: 'ETIMEDOUT' });
        onLate(
          new StoaError('backend_unavailable', `PostgreSQL did not answer within ${seconds} s.`, {
            fix: 'Check that the server runs and can be reached. See in pg_stat_activity what its statements wait for.',
            cause: silence,
          }),
        );
        closeSilent(received, silence);
        this.#compareAgain(silentMs, silence);
      }, silentMs);
    }, untilFirstCountMs);
    return () => clearTimeout(timer);
  }

  /** Finds a connection that received part of its answer during the first comparison and nothing since. */
  #compareAgain(silentMs: number, silence: Error): void {
    if (this.#comparison !== undefined) return;
    const received = this.#receivedBytes();
    this.#comparison = setTimeout(() => {
      this.#comparison = undefined;
      closeSilent(received, silence);
    }, silentMs);
    this.#comparison.unref();
  }

  #receivedBytes(): ReadonlyMap<Socket, number> {
    return new Map([...this.#sockets.keys()].map((socket) => [socket, socket.bytesRead]));
  }

  /** Closes connections that the server does not close. */
  end(): void {
    clearTimeout(this.#comparison);
    for (const socket of this.#sockets.keys()) socket.destroy();
  }
}

function closeSilent(receivedBytes: ReadonlyMap<Socket, number>, silence: Error): void {
  for (const [socket, bytes] of receivedBytes) if (socket.bytesRead === bytes) socket.destroy(silence);
}
