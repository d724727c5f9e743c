/** Streams that reconnect: each connection continues from the last position, without gaps and repeats. */
import { requestOf } from '../../api/call.js';
import type { Operation } from '../../api/operation.js';
import { StoaError } from '../../core/errors.js';
import type { ServerEvent } from '../transport/server-events.js';
import type { Transport } from '../transport/transport.js';

const reconnectMsMax = 5_000;
/** The server has too many readers. A reader that was connected before tries again. */
const crowded: ReadonlySet<string> = new Set(['overloaded', 'rate_limited']);

/** Called each time that a connection ended or could not be made. If it throws, the stream ends. */
export type OnLost = (reason: unknown) => void;

/**
 * The events of one connection after another, until the signal is aborted. `connect` gets the current
 * position each time.
 */
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
      // A broken connection throws an error of the runtime. A StoaError with another code is final.
      if (error instanceof StoaError && (error.passes !== 'shortly' || (!wasIn && crowded.has(error.code))))
        throw error;
      reason = error;
    }
    if (signal.aborted) return;
    onLost?.(reason);
    failures += 1;
    await pause(failures, signal);
  }
}

/** Waits longer after each failure, with a random part, and ends at once when the signal is aborted. */
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
  /** Starts after this time; without it with the next message. */
  after?: string | number | undefined;
  /** Called when the connection was lost: deletions until the reconnection will not be reported. */
  onReconnect?: () => void;
}

/** All events of a room or an inbox. Fields that are only for the first connection are in `first`. */
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
    // The operation declares the content of its events.
    if (event === 'message') yield JSON.parse(data) as Message;
  }
}
