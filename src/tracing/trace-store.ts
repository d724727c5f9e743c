/** Spans of what a request waits for: transactions of the kernel, and calls of databases outside this process. */
import type { Stoa } from '../index.js';
import type { GroupFacts } from '../homes/directory/kernel/store.js';
import type { Transaction } from '../homes/directory/kernel/transaction.js';
import type { Tracer } from './tracer.js';

/** Puts itself in front of the stores. Without traces nobody does, and a transaction costs what it always does. */
export function traceStore(stoa: Stoa, tracer: Tracer): void {
  let last: { group: GroupFacts; atMs: number } | undefined;
  stoa.onGroup((group) => {
    last = { group, atMs: performance.now() };
  });
  /** The group that a transaction was made durable with: the last one, unless it wrote nothing. Of several shards nobody knows which. */
  const groupSince = (startedMs: number): Record<string, number> =>
    last === undefined || last.atMs < startedMs || stoa.kernel.stores.length > 1
      ? {}
      : {
          'stoa.group.transactions': last.group.transactions,
          'stoa.group.bytes': last.group.sizeBytes,
          'stoa.group.commit_ms': last.group.commitMs,
        };

  for (const [shard, store] of stoa.kernel.stores.entries()) {
    const transact = store.transact.bind(store);
    store.transact = <T>(body: (tx: Transaction) => T): Promise<T> => {
      const span = tracer.beginChild('kernel.transact', {
        kind: 'internal',
        facts: { 'stoa.shard': shard, 'stoa.engine': stoa.kernel.manifest.engine },
      });
      const result = transact(body);
      if (span === undefined) return result;
      return result.then(
        (value) => {
          tracer.end(span, groupSince(span.startedMs));
          return value;
        },
        (error: unknown) => {
          tracer.end(span, { 'error.type': codeOf(error) }, true);
          throw error;
        },
      );
    };
  }
  stoa.onBackendCall(({ domain, backend, verb, milliseconds, failed }) => {
    const facts = { 'db.system.name': backend, 'db.operation.name': `${domain}.${verb}` };
    const span = tracer.beginChild(`${backend} ${domain}.${verb}`, {
      kind: 'client',
      facts,
      agoMs: milliseconds,
    });
    if (span !== undefined) tracer.end(span, {}, failed);
  });
}

/** The code of an error and not its sentence, which may name keys. */
function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'internal';
}
