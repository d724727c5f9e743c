/** What a server answered, as the value or the error that it meant. */
import { refusalOf } from '../../client/refusal.js';
import { type ServerEvent, ServerEvents } from '../../client/server-events.js';
import { StoaError } from '../../core/errors.js';
import { endedEarly } from './request.js';

/** The body of a good answer; a bad one becomes the error that it tells of. */
export function answerOf<Body>(status: number, text: string): Body {
  if (status >= 400) throw refusalOf(status, text);
  try {
    // Each route declares what it answers; a caller names that type.
    return (text === '' ? undefined : JSON.parse(text)) as Body;
  } catch (error) {
    throw new StoaError('unreachable', 'What answers there is no Stoa: it sent no JSON.', {
      cause: error,
      fix: 'Check --url.',
    });
  }
}

/** Reads the events of long work up to its answer. */
export async function lastOf<Body>(
  base: string,
  body: AsyncIterable<Uint8Array>,
  onProgress: (step: { done: number; total: number }) => void,
): Promise<Body> {
  for await (const { event, data } of readEvents(body)) {
    if (event === 'done') return answerOf<Body>(200, data);
    if (event === 'error') return answerOf<Body>(errorStatus, data);
    // The server's withProgress writes exactly this.
    if (event === 'progress') onProgress(JSON.parse(data) as { done: number; total: number });
  }
  throw endedEarly(base);
}

/** Any status of a refusal: its problem says the rest. */
const errorStatus = 500;

export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const events = new ServerEvents();
  for await (const chunk of body) yield* events.take(chunk);
}
