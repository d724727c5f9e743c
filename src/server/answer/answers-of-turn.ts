/** Answers that are written to their sockets together, at the end of a turn of the event loop. */
import type { ServerResponse } from 'node:http';
import type { Limits } from '../../core/settings/limits.js';
import { UnreadAnswers } from './unread-answers.js';

/** Bytes of answers that wait for the end of a turn. More are written at once. */
const bytesPerTurn = 256 * 1024;

interface Answer {
  readonly response: ServerResponse;
  readonly body: string;
  readonly sizeBytes: number;
}

/**
 * Writing to a socket wakes the client. A client on the same machine that handles an answer faster than the
 * server makes the next one sleeps in between, and waking it costs more than making the answer. If answers
 * are written one after the other, most find it awake. With 64 connections from the same machine, a GET of a
 * document took 30 µs of processor time instead of 46.
 */
export class AnswersOfTurn {
  readonly #unread: UnreadAnswers;
  #answers: Answer[] = [];
  #bytes = 0;

  constructor(limits: Limits) {
    this.#unread = new UnreadAnswers(limits);
  }

  /** Ends a response that has its head. The body has `sizeBytes` bytes in UTF-8. */
  end(response: ServerResponse, body: string, sizeBytes: number): void {
    if (this.#answers.length === 0) setImmediate(this.#write);
    this.#answers.push({ response, body, sizeBytes });
    this.#bytes += sizeBytes;
    if (this.#bytes > bytesPerTurn) this.#write();
  }

  readonly #write = (): void => {
    const answers = this.#answers;
    this.#answers = [];
    this.#bytes = 0;
    for (const { response, body, sizeBytes } of answers) {
      // Equal counts mean ASCII, which Node need not encode.
      response.end(body, sizeBytes === body.length ? 'latin1' : 'utf8');
      // Nobody reads an answer whose client is gone, and one without a socket is read at once.
      if (response.writableLength > 0 && !response.destroyed) this.#unread.add(response, sizeBytes);
    }
  };
}
