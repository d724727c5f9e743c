/** The names of the things in a store that the search index may have, read page by page. */
import type { EntryName } from '../../../find/model.js';
import { userKey } from '../../../identity/user-key.js';
import { dataFamilies, documentKey, namesOf } from '../datastore/rows.js';
import { type RangeOptions, prefixRange } from '../kernel/engine.js';
import type { Reader } from '../kernel/transaction.js';
import { decodeMessage, families as messagingFamilies } from '../messaging/rows.js';
import { buckets, indexPrefix } from '../workspaces/keys.js';
import { readRecord } from '../workspaces/rows.js';
import { sessionPath } from '../workspaces/tree.js';
import { findFamilies, messagesPartition, partitionBytes } from './rows.js';

/** A user, and of that user one namespace; null means all. */
export interface NamesScope {
  readonly user: string | null;
  readonly namespace: string | null;
}

export interface PlacedName {
  readonly partition: Buffer;
  readonly name: EntryName;
}

export interface NamesPage {
  readonly names: readonly PlacedName[];
  /** The last row that was read; undefined at the end. */
  readonly after: Buffer | undefined;
}

interface NamesSource {
  readonly family: string;
  /** Undefined if the scope has none of these. */
  range(scope: NamesScope): RangeOptions | undefined;
  nameOf(reader: Reader, key: Buffer, value: Buffer): PlacedName | undefined;
}

const documents: NamesSource = {
  family: dataFamilies.documents,
  range: ({ user, namespace }) => {
    if (user === null) return {};
    return prefixRange(namespace === null ? userKey(user) : documentKey({ user, namespace }, ''));
  },
  nameOf: (_reader, key) => {
    const { namespace, key: id } = namesOf(key);
    const partition = Buffer.from(key.subarray(0, partitionBytes));
    return { partition, name: { kind: 'data', collection: namespace, id } };
  },
};

/** Documents in a store beside the directory. */
const entries: NamesSource = { ...documents, family: findFamilies.entries };

const tasks: NamesSource = {
  family: buckets.indexes,
  range: ({ user, namespace }) => {
    if (namespace !== null) return undefined;
    return prefixRange(user === null ? indexPrefix('task', 'owner') : indexPrefix('task', 'owner', user));
  },
  nameOf: (reader, key) => {
    // Owner, status and id, without colons.
    const id = key.toString().split(':').at(-1) ?? '';
    const task = readRecord(reader, 'task', id);
    const path = task === undefined ? undefined : sessionPath(reader, task.session_id);
    if (path === undefined) return undefined;
    const name: EntryName = { kind: 'tasks', collection: path.project.id, id };
    return { partition: userKey(path.workspace.owner_id), name };
  },
};

const messages: NamesSource = {
  family: messagingFamilies.messages,
  range: ({ user }) => (user === null ? {} : undefined),
  nameOf: (_reader, key, value) => {
    const { roomId, id } = decodeMessage(key, value);
    return { partition: messagesPartition, name: { kind: 'messages', collection: roomId, id } };
  },
};

const sourceOf = { data: documents, entries, tasks, messages } as const;

/** The kinds of rows that name things, in the order in which they are read. */
export type NamedKind = keyof typeof sourceOf;
export const namedKinds: readonly NamedKind[] = ['data', 'entries', 'tasks', 'messages'];

/** The next names of one kind, in the order of their rows. */
export function readNames(
  reader: Reader,
  kind: NamedKind,
  scope: NamesScope,
  after: Buffer | undefined,
  limit: number,
): NamesPage {
  const { family, range, nameOf }: NamesSource = sourceOf[kind];
  const bounds = range(scope);
  if (bounds === undefined) return { names: [], after: undefined };
  const { gte, lt } = bounds;
  const from = after === undefined ? gte && { gte } : { gt: after };
  const rows = Array.from(reader.range(family, { ...from, ...(lt !== undefined && { lt }), limit }));
  return {
    names: rows.flatMap(({ key, value }) => nameOf(reader, key, value) ?? []),
    after: rows.length < limit ? undefined : rows.at(-1)?.key,
  };
}

/** Rows of one kind, whether or not they are to be found. */
export function countRows(
  reader: Reader,
  kind: NamedKind,
  scope: NamesScope,
  after: Buffer | undefined,
  limit: number,
): { count: number; after: Buffer | undefined } {
  const { family, range }: NamesSource = sourceOf[kind];
  const bounds = range(scope);
  if (bounds === undefined) return { count: 0, after: undefined };
  const { gte, lt } = bounds;
  const from = after === undefined ? gte && { gte } : { gt: after };
  let count = 0;
  let last: Buffer | undefined;
  for (const { key } of reader.range(family, { ...from, ...(lt !== undefined && { lt }), limit })) {
    count += 1;
    last = key;
  }
  return { count, after: count < limit ? undefined : last };
}
