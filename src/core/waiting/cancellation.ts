/** Long work for a client that may disconnect before the work is done. */
import { StoaError } from '../errors.js';

/**
 * Says whether the client has disconnected, as an `AbortSignal` does. It is read between steps, because a
 * listener would cost more.
 */
export interface Cancellation {
  readonly aborted: boolean;
}

/** Called between two steps: throws if the client has disconnected. The steps that are done stay done. */
export function checkWanted(signal: Cancellation | undefined): void {
  if (signal?.aborted === true)
    throw new StoaError(
      'cancelled',
      'The client disconnected. Items already processed are kept; the rest was not started.',
    );
}
