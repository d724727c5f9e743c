/** Summaries of keys and namespaces, for stores that compute them from the documents. */
import type { Cancellation } from '../core/waiting/cancellation.js';
import { sizeOf } from '../datastore/documents/merge-document.js';
import { laterTime } from '../datastore/documents/times.js';
import type { DocumentRecord, KeySummary, NamespaceSummary, Scope } from '../datastore/model.js';
import type { NamespaceAgents } from './namespace-agents.js';

export interface NamespaceReads {
  /** The first namespace of the user after a name. One request, however many documents a namespace has. */
  next(user: string, after: string | null): Promise<string | undefined>;
  summarise(scope: Scope, signal?: Cancellation): Promise<NamespaceSummary>;
}

/** Where the namespaces are read, and the agents that must be written before. */
export interface NamespaceSources {
  readonly reads: NamespaceReads;
  readonly agents: NamespaceAgents;
}

/** The namespaces that have documents, at most `limit`. */
export async function listNamespaces(
  { reads, agents }: NamespaceSources,
  user: string,
  after: string | null,
  limit: number,
  signal?: Cancellation,
): Promise<NamespaceSummary[]> {
  await agents.flush();
  const found: NamespaceSummary[] = [];
  for (
    let namespace = await reads.next(user, after);
    namespace !== undefined;
    namespace = await reads.next(user, namespace)
  ) {
    const summary = await reads.summarise({ user, namespace }, signal);
    if (summary.count > 0) found.push(summary);
    if (found.length >= limit) break;
  }
  return found;
}

export async function describeNamespaces(
  { reads, agents }: NamespaceSources,
  user: string,
  names: readonly string[],
  signal?: Cancellation,
): Promise<NamespaceSummary[]> {
  await agents.flush();
  const found: NamespaceSummary[] = [];
  for (const namespace of names) found.push(await reads.summarise({ user, namespace }, signal));
  return found.filter(({ count }) => count > 0);
}

export function emptySummary({ namespace }: Scope): NamespaceSummary {
  return { namespace, count: 0, sizeBytes: 0, agents: [], updatedAt: '' };
}

export function addKey(summary: NamespaceSummary, { sizeBytes, updatedAt }: KeySummary): void {
  summary.count += 1;
  summary.sizeBytes += sizeBytes;
  summary.updatedAt = laterTime(summary.updatedAt || null, updatedAt) ?? updatedAt;
}

/**
 * Sizes are stored with Stoa's documents. Documents of other programs, which have none, are read and
 * measured.
 */
export async function keySummaries(
  entries: readonly { key: string; summary: KeySummary | undefined }[],
  getMany: (keys: readonly string[]) => Promise<(DocumentRecord | undefined)[]>,
): Promise<KeySummary[]> {
  const unmeasured = entries.filter(({ summary }) => summary === undefined).map(({ key }) => key);
  const measured = new Map(
    (await getMany(unmeasured)).flatMap((record) =>
      record === undefined ? [] : [[record.key, summaryOfRecord(record)] as const],
    ),
  );
  return entries
    .map(({ key, summary }) => summary ?? measured.get(key))
    .filter((summary) => summary !== undefined);
}

function summaryOfRecord(record: DocumentRecord): KeySummary {
  const { key, version, updatedAt } = record;
  return { key, version, sizeBytes: sizeOf(record), updatedAt };
}
