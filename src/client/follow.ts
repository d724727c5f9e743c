/** Messages of a stream, connection after connection: the position goes along, so that none is missed and none comes twice. */
import { StoaError } from '../errors.js';
import type { Transport } from './transport.js';

const reconnectMsMax = 5_000;

export async function* followMessages<Message>(
  transport: Transport,
  path: string,
  settings: { signal: AbortSignal; after?: number | undefined; query?: Record<string, string | number> },
  headers: Readonly<Record<string, string>> = {},
): AsyncGenerator<Message> {
  let position: string | undefined;
  for (let failures = 0; !settings.signal.aborted; ) {
    try {
      const query = position === undefined ? { ...settings.query, after: settings.after } : {};
      const resume: Record<string, string> = position === undefined ? {} : { 'last-event-id': position };
      for await (const event of transport.events(path, { query, headers: { ...headers, ...resume }, signal: settings.signal })) {
        failures = 0;
        position = event.id ?? position;
        // The route declares what its events hold.
        if (event.event === 'message') yield JSON.parse(event.data) as Message;
      }
    } catch (error) {
      if (settings.signal.aborted) return;
      if (error instanceof StoaError && error.code !== 'unreachable' && error.code !== 'closed' && error.code !== 'backend_unavailable') throw error;
    }
    failures += 1;
    await new Promise((resolve) => setTimeout(resolve, Math.min(reconnectMsMax, 100 * 2 ** Math.min(failures, 10)) * Math.random()));
  }
}
