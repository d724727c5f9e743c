/** The change feed as changes of one namespace. */
import type { DocumentChange } from '../datastore/watch.js';
import { type ChangeItem, ChangesClient } from './changes.js';
import type { Transport } from './transport.js';

export interface WatchTarget {
  namespace: string;
  /** The user whose documents are meant; undefined where the token says it. */
  user: string | undefined;
  prefix?: string | undefined;
  since?: string | undefined;
  signal: AbortSignal;
}

const kinds: Readonly<Record<string, DocumentChange['kind']>> = { 'document.set': 'set', 'document.deleted': 'deleted', 'namespace.cleared': 'cleared' };

export async function* watchChanges(transport: Transport, target: WatchTarget): AsyncGenerator<DocumentChange> {
  const { since, signal } = target;
  for await (const { items, position } of new ChangesClient(transport).follow({ topics: ['data'], since, signal })) {
    yield* items.flatMap((item) => documentChange(item, target, position));
  }
}

function documentChange(item: ChangeItem, target: WatchTarget, position: string): DocumentChange[] {
  const { namespace, key } = item.facts ?? {};
  const kind = kinds[item.kind];
  if (kind === undefined || namespace !== target.namespace || (target.user !== undefined && item.user !== target.user)) return [];
  if (typeof key === 'string' && !key.startsWith(target.prefix ?? '')) return [];
  return [{ kind, key: typeof key === 'string' ? key : null, version: item.version, at: new Date(item.at).toISOString(), position }];
}
