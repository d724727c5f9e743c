/** Converts the answer of a server into a value or an error. */
import { refusalOf } from '../../client/transport/refusal.js';
import { type ServerEvent, ServerEvents } from '../../client/transport/server-events.js';
import { StoaError } from '../../core/errors.js';
import type { OnProgress, Progress } from '../../operations/model.js';
import { endedEarly } from './request.js';

/** The body of a successful answer. An error answer is thrown as the error that it describes. */
export function answerOf<Body>(status: number, text: string): Body {
  if (status >= 400) throw refusalOf(status, text);
  try {
    // Each route declares the type of its answer; the caller names that type.
    return (text === '' ? undefined : JSON.parse(text)) as Body;
  } catch (error) {
    throw new StoaError('unreachable', 'The server at this address is not Stoa: its answer is not JSON.', {
      cause: error,
      fix: 'Check --url.',
    });
  }
}

/** Reads the events of long work up to its answer. */
export async function lastOf<Body>(
  base: string,
  body: AsyncIterable<Uint8Array>,
  onProgress: OnProgress,
): Promise<Body> {
  for await (const { event, data } of readEvents(body)) {
    if (event === 'done') return answerOf<Body>(200, data);
    if (event === 'error') return answerOf<Body>(errorStatus, data);
    // The server's withProgress writes exactly this.
    if (event === 'progress') onProgress(JSON.parse(data) as Progress);
  }
  throw endedEarly(base);
}

/** The status of an error event: the problem in it has the details. */
const errorStatus = 500;

export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const events = new ServerEvents();
  for await (const chunk of body) yield* events.take(chunk);
}
