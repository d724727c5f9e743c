/** How long PostgreSQL may take to answer: one that falls silent is noticed here, and not by TCP many minutes later. */
import { Socket } from 'node:net';
import { StoaError } from '../../../core/errors.js';

/** What the driver knows of the server, or of several, when it asks for a socket. */
export interface SocketTarget {
  readonly host: readonly string[];
  readonly port: readonly number[];
  /** Of a socket in the file system. */
  readonly path: string | false;
  /** Which of several servers will do; the driver leaves the others again. */
  readonly target_session_attrs?: string | null;
}

/** The server ends a statement after the time itself, if it lives; only then is it waited for a little longer, in vain. */
const graceShare = 0.2;

/** Of one pool. */
export class AnswerTime {
  /** A start may change large tables; once the tables are there, statements are short. 0 is no limit, as PostgreSQL has it. */
  secondsMax: number;
  /** Statements and transactions that somebody waits for. */
  underWay = 0;
  /** With the place of their server in the list. */
  readonly #sockets = new Map<Socket, number>();
  /** Which server of the list new connections go to. */
  #serverIndex = 0;
  #lookingAgain: NodeJS.Timeout | undefined;

  constructor(secondsMax: number) {
    this.secondsMax = secondsMax;
  }

  /** A connection of the pool, as the driver would make it. */
  readonly connect = (target: SocketTarget): Socket => {
    this.#forgetEnded(target);
    const {
      host: { [this.#serverIndex]: host = 'localhost' },
      port: { [this.#serverIndex]: port = 5432 },
      path,
    } = target;
    const socket = new Socket();
    this.#sockets.set(socket, this.#serverIndex);
    // The driver reads the name of the host, for TLS, where it puts it itself.
    Object.assign(socket, { host, port });
    return path === false ? socket.connect(port, host) : socket.connect(path);
  };

  /** After a connection that could not be made, was lost, or was to a server that will not do, it is the next server's turn. */
  #forgetEnded({ host, target_session_attrs: wanted = null }: SocketTarget): void {
    // Under TLS the driver takes all listeners off a socket, so that its close is not heard.
    for (const [socket, index] of this.#sockets) {
      if (!socket.destroyed) continue;
      this.#sockets.delete(socket);
      const endedWell = socket.errored === null && socket.bytesRead > 0 && wanted === null;
      if (index === this.#serverIndex && !endedWell) this.#serverIndex = (index + 1) % host.length;
    }
  }

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
          reject(error); // What the driver refuses with.
        },
      );
    });
    return answered.finally(() => (this.underWay -= 1));
  }

  /**
   * Calls back unless it is stopped in time. Connections from which nothing came nearly all the while are given
   * up then: the one that the answer should have come from is among them, and none on which a server that lives had
   * to end something meanwhile, also where this one only waited for its turn.
   */
  limit(onLate: (late: StoaError) => void): () => void {
    const seconds = this.secondsMax;
    if (seconds === 0) return () => undefined;
    // What begins on another connection just before the look at them is ended by the server, and heard of, before the next one.
    const untilLookMs = (seconds * 1_000 * graceShare) / 2;
    const silentMs = seconds * 1_000 + untilLookMs;
    let timer = setTimeout(() => {
      const heard = this.#heardBytes();
      timer = setTimeout(() => {
        const silence = Object.assign(new Error(`no answer within ${seconds} s`), { code: 'ETIMEDOUT' });
        onLate(
          new StoaError('backend_unavailable', `PostgreSQL did not answer within ${seconds} s.`, {
            fix: 'Check that the server runs and can be reached, and what its statements wait for.',
            cause: silence,
          }),
        );
        giveUpSilent(heard, silence);
        this.#lookAgain(silentMs, silence);
      }, silentMs);
    }, untilLookMs);
    return () => clearTimeout(timer);
  }

  /** One that fell silent in the middle of its answer has been heard since the first look. */
  #lookAgain(silentMs: number, silence: Error): void {
    if (this.#lookingAgain !== undefined) return;
    const heard = this.#heardBytes();
    this.#lookingAgain = setTimeout(() => {
      this.#lookingAgain = undefined;
      giveUpSilent(heard, silence);
    }, silentMs);
    this.#lookingAgain.unref();
  }

  #heardBytes(): ReadonlyMap<Socket, number> {
    return new Map([...this.#sockets.keys()].map((socket) => [socket, socket.bytesRead]));
  }

  /** Lets go of connections that the server does not close. */
  end(): void {
    clearTimeout(this.#lookingAgain);
    for (const socket of this.#sockets.keys()) socket.destroy();
  }
}

function giveUpSilent(heardBytes: ReadonlyMap<Socket, number>, silence: Error): void {
  for (const [socket, bytes] of heardBytes) if (socket.bytesRead === bytes) socket.destroy(silence);
}
