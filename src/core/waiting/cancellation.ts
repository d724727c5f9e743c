/** Long work for a caller who may go away before it is done. */
import { StoaError } from '../errors.js';

/** Tells whether whoever asked has gone away; an `AbortSignal` does. It is looked at, not listened to: that costs nothing. */
export interface Cancellation {
  readonly aborted: boolean;
}

/** Between two steps: throws where nobody waits for the rest. What the steps before have done stays done. */
export function checkWanted(signal: Cancellation | undefined): void {
  if (signal?.aborted === true)
    throw new StoaError(
      'cancelled',
      'Whoever asked has gone away; what was under way is done, and the rest was left.',
    );
}
