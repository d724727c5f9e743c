/** The change feed of a server as changes of one namespace; a broken connection goes on where it was. */
import type { DocumentChange } from '../datastore/watch.js';
import { StoaError } from '../errors.js';
import type { Transport } from './transport.js';

export interface WatchTarget {
  namespace: string;
  /** The user whose documents are meant; undefined where the token says it. */
  user: string | undefined;
  prefix?: string | undefined;
  since?: string | undefined;
  signal: AbortSignal;
}

interface FeedItem {
  at: number;
  kind: string;
  user: string | null;
  version: number | null;
  facts?: { namespace?: string; key?: string };
}

const kinds: Readonly<Record<string, DocumentChange['kind']>> = { 'document.set': 'set', 'document.deleted': 'deleted', 'namespace.cleared': 'cleared' };
const reconnectMsMax = 5_000;

export async function* watchChanges(transport: Transport, target: WatchTarget): AsyncGenerator<DocumentChange> {
  let since = target.since;
  for (let failures = 0; !target.signal.aborted; ) {
    try {
      for await (const event of transport.events('/v1/changes', { query: { topics: 'data', since }, signal: target.signal })) {
        failures = 0;
        // The server's own schema says what an event holds.
        const { items = [], position, detail } = JSON.parse(event.data) as { items?: FeedItem[]; position?: string; detail?: string };
        if (event.event === 'resync') throw new StoaError('resync', detail ?? 'The position is too old.', { fix: 'Read the documents anew and watch from now on.' });
        yield* items.flatMap((item) => documentChange(item, target, position ?? ''));
        since = position ?? since;
      }
    } catch (error) {
      if (target.signal.aborted) return;
      // A connection that breaks in the middle throws what the runtime throws; everything of ours but "away" is final.
      if (error instanceof StoaError && error.code !== 'unreachable' && error.code !== 'closed') throw error;
    }
    failures += 1;
    await new Promise((resolve) => setTimeout(resolve, Math.min(reconnectMsMax, 100 * 2 ** Math.min(failures, 10)) * Math.random()));
  }
}

function documentChange(item: FeedItem, target: WatchTarget, position: string): DocumentChange[] {
  const { namespace, key } = item.facts ?? {};
  const kind = kinds[item.kind];
  if (kind === undefined || namespace !== target.namespace || (target.user !== undefined && item.user !== target.user)) return [];
  if (key !== undefined && !key.startsWith(target.prefix ?? '')) return [];
  return [{ kind, key: key ?? null, version: item.version, at: new Date(item.at).toISOString(), position }];
}
