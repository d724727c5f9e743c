/** What the data store announces in the change feed: names and versions, never values. */
import type { Change } from '../core/change.js';
import { documentPath, encodeSegment } from '../core/text/path-segment.js';
import type { Scope } from './model.js';

export function documentSet(scope: Scope, key: string, version: number): Change {
  return {
    domain: 'data',
    kind: 'document.set',
    id: documentPath(scope.namespace, key),
    user: scope.user,
    version,
    facts: { namespace: scope.namespace, key },
  };
}

/** An imported document, with the version that it had in the export. */
export function documentImported(scope: Scope, key: string, version: number): Change {
  const change = documentSet(scope, key, version);
  return { ...change, facts: { ...change.facts, imported: true } };
}

export function documentDeleted(scope: Scope, key: string, expired = false): Change {
  const facts = { namespace: scope.namespace, key, ...(expired && { expired }) };
  return {
    domain: 'data',
    kind: 'document.deleted',
    id: documentPath(scope.namespace, key),
    user: scope.user,
    version: null,
    facts,
  };
}

/**
 * One for each step of a clear: the number of documents that the step removed, and the range of keys that it
 * read, after `after` and up to `through`.
 */
export function namespaceCleared(
  scope: Scope,
  deleted: number,
  after: string | null,
  through: string | null,
): Change {
  const facts = {
    namespace: scope.namespace,
    deleted,
    ...(after !== null && { after }),
    ...(through !== null && { through }),
  };
  return {
    domain: 'data',
    kind: 'namespace.cleared',
    id: encodeSegment(scope.namespace),
    user: scope.user,
    version: null,
    facts,
  };
}
