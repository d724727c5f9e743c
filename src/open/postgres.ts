/** A PostgreSQL beside the data directory: its pool, feed and writer, for the domain that is kept there. */
import type { Caller } from '../core/caller.js';
import type { Limits } from '../core/settings/limits.js';
import type { PostgresBase } from '../homes/postgres/base.js';

export interface OpenBaseOptions {
  readonly limits: Limits;
  readonly nowMs: () => number;
  readonly checkFence?: ((caller: Caller) => void) | undefined;
  readonly onError: (error: unknown) => void;
}

export async function openBase(
  url: URL,
  { limits, nowMs, checkFence, onError }: OpenBaseOptions,
): Promise<PostgresBase> {
  const { openPostgresBase } = await import('../homes/postgres/base.js');
  return openPostgresBase(url, {
    limits,
    // The lease is not in this database: the check comes as late as it can.
    checkFence: async (work, caller) => work.beforeCommit(async () => checkFence?.(caller)),
    onError,
    skewMs: () => nowMs() - Date.now(),
  });
}

/** The same port; closing it closes what it was opened on. */
export function closingAfter<Port extends { close(): Promise<void> }>(
  port: Port,
  close: () => Promise<void>,
): Port {
  return new Proxy(port, {
    get: (object, name) => {
      const member: unknown = Reflect.get(object, name, object);
      if (typeof member !== 'function') return member;
      if (name !== 'close') return (...given: unknown[]): unknown => Reflect.apply(member, object, given);
      return async (): Promise<void> => {
        try {
          await object.close();
        } finally {
          await close();
        }
      };
    },
  });
}
