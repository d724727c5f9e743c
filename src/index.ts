/** The library. The server, the CLI and MCP use only the object that `openStoa` returns. */
import { type Closing, closeAll } from './core/close-all.js';
import { messageOf } from './core/errors.js';
import { Listeners } from './core/listeners.js';
import { limitsWith } from './core/settings/limits.js';
import type { GroupFacts } from './homes/directory/kernel/store-options.js';
import type { BackendCall } from './homes/home.js';
import { type Domains, openDomains } from './open/domains.js';
import { openHome } from './open/home.js';
import { openServices } from './open/services.js';
import type { Stoa, StoaOptions } from './open/stoa.js';

export { StoaError } from './core/errors.js';
export type { Embedder } from './find/vectors/embedder.js';
export { type Caller, operatorCaller } from './core/caller.js';
export type { GroupFacts } from './homes/directory/kernel/store-options.js';
export type { Stoa, StoaOptions } from './open/stoa.js';

/** The longest interval that a timer takes. */
const neverMs = 2 ** 31 - 1;

/**
 * Opens a Stoa with everything in it.
 *
 * @example
 * const stoa = await openStoa({ data: './data' });
 * const page = await stoa.changes.read(operatorCaller(), {});
 * await stoa.close();
 */
export async function openStoa(options: StoaOptions): Promise<Stoa> {
  const limits = limitsWith(options.limits);
  const onError = options.onError ?? ((error, about) => process.emitWarning(`${about}: ${messageOf(error)}`));
  const groups = new Listeners<GroupFacts>();
  const calls = new Listeners<BackendCall>();
  let domains: Domains | undefined;
  const home = await openHome(options, {
    limits,
    onError,
    onCall: (call) => calls.tell(call),
    onTokenRemoved: (id) => domains?.identity.forget(id),
    onTokensMissed: () => domains?.identity.forgetAll(),
    onGroup: (group) => groups.tell(group),
    sweepIntervalMs: options.move === undefined ? options.sweepIntervalMs : neverMs,
    move: options.move,
  });
  // A service may fail to open, so the port of messaging does not depend on it.
  const opened: Closing[] = [() => home.messaging.close(), () => home.close()];
  try {
    const opening = { home, options, limits, onError, calls, opened };
    domains = await openDomains(opening);
    let closing: Promise<void> | undefined;
    const stoa: Stoa = {
      ...openServices(opening, domains),
      limits,
      home,
      secrets: home.secrets,
      onError,
      onGroup: (listener) => groups.add(listener),
      onBackendCall: (listener) => calls.add(listener),
      // Once: a part that is closed again would write into a store that is closed.
      close: () => (closing ??= closeAll(opened)),
    };
    if (options.move === undefined) start(stoa);
    return stoa;
  } catch (error) {
    await closeAll(opened).catch((failure: unknown) => onError(failure, 'closing what was opened'));
    throw error;
  }
}

/** Starts the background work. */
function start({ home, identity, secrets, data, vectors, onError }: Stoa): void {
  home.start();
  identity.start();
  secrets.resume(onError);
  data.start();
  vectors.start();
}
