/** Streams, connection after connection: the position goes along, so that nothing is missed and nothing comes twice. */
import { requestOf } from '../api/call.js';
import type { Operation } from '../api/operation.js';
import { StoaError } from '../core/errors.js';
import type { ServerEvent } from './server-events.js';
import type { Transport } from './transport.js';

const reconnectMsMax = 5_000;
/** The server is away, or says that it cannot serve now. */
const passing: ReadonlySet<string> = new Set(['unreachable', 'closed', 'backend_unavailable']);
/** So many readers at once that some must come back: no reason to fail for one that was let in before. */
const crowded: ReadonlySet<string> = new Set(['overloaded', 'rate_limited']);

/** Called each time that a connection has ended or could not be made; what it throws ends the stream. */
export type OnLost = (reason: unknown) => void;

/** The events of one connection after the other until the signal ends it; `connect` is asked for each with where it is by then. */
export async function* reconnecting(
  connect: () => AsyncIterable<ServerEvent>,
  signal: AbortSignal,
  onLost?: OnLost,
): AsyncGenerator<ServerEvent> {
  let wasIn = false;
  for (let failures = 0; !signal.aborted;) {
    let reason: unknown;
    try {
      for await (const event of connect()) {
        failures = 0;
        wasIn = true;
        yield event;
      }
    } catch (error) {
      if (signal.aborted) return;
      // A connection that breaks in the middle throws what the runtime throws; of ours, all that does not pass is final.
      if (error instanceof StoaError && !passing.has(error.code) && !(wasIn && crowded.has(error.code)))
        throw error;
      reason = error;
    }
    if (signal.aborted) return;
    onLost?.(reason);
    failures += 1;
    await pause(failures, signal);
  }
}

/** Longer with each failure, never the same for two, and over at once when the signal ends it. */
export function pause(failures: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(
      end,
      Math.min(reconnectMsMax, 100 * 2 ** Math.min(failures, 10)) * Math.random(),
    );
    signal.addEventListener('abort', end, { once: true });
  });
}

export interface StreamSettings {
  signal: AbortSignal;
  /** Begin after this event or time; without it with what comes next. */
  after?: number | undefined;
  /** Called when the server has been lost: what was deleted until it is back will not be reported. */
  onReconnect?: () => void;
}

/** The events of a room or an inbox, of every kind. Fields that only matter at the beginning are in `first`. */
export async function* followStream(
  transport: Transport,
  row: Operation,
  input: Readonly<Record<string, unknown>>,
  { signal, after, onReconnect }: StreamSettings,
  first: Readonly<Record<string, unknown>> = {},
): AsyncGenerator<ServerEvent> {
  let position: string | undefined;
  const connect = (): AsyncIterable<ServerEvent> => {
    if (position === undefined)
      return transport.events(requestOf(row, { ...input, ...first, after }, { signal }));
    onReconnect?.();
    const request = requestOf(row, input, { signal });
    return transport.events({ ...request, headers: { ...request.headers, 'last-event-id': position } });
  };
  for await (const event of reconnecting(connect, signal)) {
    position = event.id ?? position;
    yield event;
  }
}

export async function* followMessages<Message>(
  ...given: Parameters<typeof followStream>
): AsyncGenerator<Message> {
  for await (const { event, data } of followStream(...given)) {
    // The operation declares what its events hold.
    if (event === 'message') yield JSON.parse(data) as Message;
  }
}
