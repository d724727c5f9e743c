/** Changes of a namespace as they happen, from the change feed. */
import { StoaError } from '../core/errors.js';
import type { Feed } from '../feed/port.js';
import type { Change } from '../core/change.js';
import type { Scope } from './model.js';

export interface DocumentChange {
  kind: 'set' | 'deleted' | 'cleared';
  /** Null when the whole namespace was cleared. */
  key: string | null;
  /** The version after a set. */
  version: number | null;
  /** ISO 8601. */
  at: string;
  /** Pass it as `since` to continue after this change. */
  position: string;
  /** For a clear in several steps: only keys after this one, in code-point order, are removed. */
  after?: string;
  /** For a clear in several steps: only keys up to this one are removed. */
  through?: string;
}

export interface WatchOptions {
  /** Only keys with this prefix. A clear is always reported. */
  prefix?: string | undefined;
  /** A position; without it the watch begins now. */
  since?: string | undefined;
  signal: AbortSignal;
}

const kinds: Readonly<Record<string, DocumentChange['kind']>> = {
  'document.set': 'set',
  'document.deleted': 'deleted',
  'namespace.cleared': 'cleared',
};
const idleMs = 60_000;

export async function* watchNamespace(
  feed: Feed,
  scope: Scope,
  options: WatchOptions,
): AsyncGenerator<DocumentChange> {
  const prefix = options.prefix ?? '';
  const accept = (change: Change): boolean => {
    if (
      change.domain !== 'data' ||
      change.user !== scope.user ||
      change.facts?.['namespace'] !== scope.namespace
    )
      return false;
    const key = change.facts['key'];
    return typeof key !== 'string' || key.startsWith(prefix);
  };
  const interest = { ...scope, prefix };
  for await (const page of feed.follow({
    since: options.since,
    accept,
    interest,
    signal: options.signal,
    idleMs,
  })) {
    for (const commit of page.commits) {
      for (const change of commit.changes) {
        const kind = kinds[change.kind];
        if (kind === undefined)
          throw new StoaError(
            'invalid_data',
            `The change feed contains a change of an unknown kind, "${change.kind}".`,
          );
        yield {
          kind,
          ...namedIn(change.facts),
          version: change.version,
          at: new Date(commit.atMs).toISOString(),
          position: commit.position,
        };
      }
    }
  }
}

/** The key that a change is about, or the range of keys of a clear. */
export function namedIn({ key, after, through }: NonNullable<Change['facts']> = {}): Pick<
  DocumentChange,
  'key' | 'after' | 'through'
> {
  return {
    key: typeof key === 'string' ? key : null,
    ...(typeof after === 'string' && { after }),
    ...(typeof through === 'string' && { through }),
  };
}
