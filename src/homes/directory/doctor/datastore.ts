/**
 * What `stoa doctor` checks of the data store: large values, reads, timers, the agents of namespaces, and the
 * counts of namespaces and users.
 */
import type { Usage } from '../../../datastore/quota.js';
import { msOf } from '../../../datastore/documents/times.js';
import { userKey } from '../../../identity/user-key.js';
import { type Damage, type ExaminedRow, damageAt, missingRow } from '../kernel/inspect/damage.js';
import { type Check, type Found, eachRow, type turn } from '../kernel/inspect/doctor.js';
import { type RangeOptions, prefixRange } from '../kernel/engine.js';
import type { Store } from '../kernel/store.js';
import type { Reader } from '../kernel/transaction.js';
import {
  type NamespaceRow,
  dataFamilies as families,
  decodeAccess,
  decodeDocument,
  decodeNamespace,
  decodeUsage,
  encodeNamespace,
  encodeUsage,
  expiresAtMsOf,
  expiryTimer,
  inlineValue,
  isApart,
  noUsage,
  sizeOfRow,
} from '../datastore/rows.js';
import { readable } from './indexes.js';
import { inspectTimer } from './timers.js';

const userBytes = 32;
const countBytes = 24;

/** The checks in the order in which repairs build on each other. */
export function dataChecks(): Check[] {
  const tallies = new NamespaceTallies();
  return [
    { family: families.documents, inspect: (row) => inspectDocument(tallies, row) },
    { family: families.values, inspect: inspectValue },
    { family: families.access, inspect: inspectAccess },
    { family: families.namespaces, inspect: (row) => inspectNamespace(tallies, row) },
    { family: families.usage, inspect: inspectUsage },
    { family: families.agents, inspect: inspectAgent },
  ];
}

type Tally = Pick<NamespaceRow, 'count' | 'sizeBytes'>;

/**
 * The counts from the walk over the documents. Concurrent writes can make them wrong, so a match only proves
 * that a namespace is right; one that differs is counted again in one transaction.
 */
class NamespaceTallies {
  readonly #stores = new WeakMap<Store, { through: Buffer; tallies: Map<string, Tally> }>();

  add(store: Store, key: Buffer, sizeBytes: number): void {
    const known = this.#stores.get(store) ?? { through: Buffer.alloc(0), tallies: new Map<string, Tally>() };
    // A page with damage is walked twice.
    if (Buffer.compare(key, known.through) <= 0) return;
    known.through = key;
    const namespace = namespaceOf(key).toString('latin1');
    const { count, sizeBytes: before } = known.tallies.get(namespace) ?? { count: 0, sizeBytes: 0 };
    known.tallies.set(namespace, { count: count + 1, sizeBytes: before + sizeBytes });
    this.#stores.set(store, known);
  }

  agrees(store: Store, namespace: Buffer, { count, sizeBytes }: Tally): boolean {
    const tally = this.#stores.get(store)?.tallies.get(namespace.toString('latin1'));
    return tally?.count === count && tally.sizeBytes === sizeBytes;
  }
}

function* inspectDocument(tallies: NamespaceTallies, row: ExaminedRow): Generator<Found> {
  const { reader, store, key, value } = row;
  const record = decodeDocument(key, value, '');
  tallies.add(store, key, sizeOfRow(value));
  if (!userKey(record.userId).equals(key.subarray(0, userBytes)))
    yield row.beyondRepair('The user in the document differs from the user in its key.');
  const stored = isApart(value) ? reader.get(families.values, key) : Buffer.from(inlineValue(value));
  if (stored === undefined)
    yield damageAt(families.values, key, 'missing', 'The value of a document is missing.', null);
  else if (stored.length !== sizeOfRow(value))
    yield damageAt(
      isApart(value) ? families.values : families.documents,
      key,
      'wrong',
      `The value of a document has ${stored.length} bytes. Expected ${sizeOfRow(value)}.`,
      null,
    );
  for (const agent of new Set([record.createdByAgent, record.updatedByAgent, record.lastAccessedByAgent]))
    yield* inspectWorked(reader, key, agent);
  const expiresAtMs = expiresAtMsOf(value);
  if (expiresAtMs > 0)
    yield* inspectTimer(
      reader,
      { atMs: expiresAtMs, kind: expiryTimer, reference: key },
      'The expiry timer of a document is missing.',
    );
  const namespace = namespaceOf(key);
  // Reported once, with the first document of the namespace.
  if (
    reader.get(families.namespaces, namespace) === undefined &&
    firstOf(reader, namespace)?.equals(key) === true
  )
    yield missingRow(
      families.namespaces,
      namespace,
      'The namespace of a document is missing in the list of namespaces.',
      encodeNamespace(yield* counted(reader, namespace)),
    );
}

function* inspectValue(row: ExaminedRow): Generator<Damage> {
  const document = row.reader.get(families.documents, row.key);
  if (document === undefined) yield row.dangling('A value belongs to a document that does not exist.');
  else if (!isApart(document))
    yield row.surplus('The value is stored twice: the row of the document contains it too.', 'duplicate');
}

function* inspectAccess(row: ExaminedRow): Generator<Damage> {
  const { reader, key, value } = row;
  if (reader.get(families.documents, key) === undefined) {
    yield row.dangling('Reads are stored for a document that does not exist.');
    return;
  }
  const access = readable(() => decodeAccess(value));
  if (typeof access?.count !== 'number')
    yield row.surplus('The stored reads of a document are invalid.', 'unreadable');
  else yield* inspectWorked(reader, key, access.agent);
}

/** An agent that wrote or read a document must be in the list of agents of its namespace. */
function* inspectWorked(reader: Reader, document: Buffer, agent: string | null): Generator<Damage> {
  if (agent === null) return;
  const key = Buffer.concat([namespaceOf(document), Buffer.of(0), Buffer.from(agent)]);
  if (reader.get(families.agents, key) !== undefined) return;
  yield missingRow(
    families.agents,
    key,
    `The agent "${agent}" is missing in the list of agents of a namespace where it worked.`,
    Buffer.alloc(0),
  );
}

/**
 * An agent without documents still counts as an agent of the namespace, unless the user never stored
 * anything.
 */
function* inspectAgent(row: ExaminedRow): Generator<Damage> {
  const { reader, key } = row;
  if (key.indexOf(0, userBytes) <= userBytes) {
    yield row.surplus('The key does not name a namespace and an agent.');
    return;
  }
  const isKnown =
    reader.get(families.usage, key.subarray(0, userBytes)) !== undefined ||
    reader.get(families.namespaces, namespaceOf(key)) !== undefined;
  if (!isKnown) yield row.dangling('The namespace belongs to a user without stored documents.');
}

function* inspectNamespace(tallies: NamespaceTallies, row: ExaminedRow): Generator<Found> {
  const { reader, store, key, value } = row;
  const user = key.subarray(0, userBytes);
  if (reader.get(families.usage, user) === undefined)
    yield missingRow(
      families.usage,
      user,
      'The usage row of a user is missing.',
      encodeUsage(yield* summed(reader, user)),
    );
  const stated = value.length === countBytes ? decodeNamespace(value) : undefined;
  if (stated !== undefined && tallies.agrees(store, key, stated)) return;
  const { count, sizeBytes, updatedAtMs } = yield* counted(reader, key);
  if (count === 0) {
    yield row.dangling('The namespace has no documents.');
    return;
  }
  if (stated?.count === count && stated.sizeBytes === sizeBytes) return;
  const right = encodeNamespace({ count, sizeBytes, updatedAtMs: stated?.updatedAtMs ?? updatedAtMs });
  yield row.wrong(
    `The row of the namespace is wrong: the namespace has ${count} documents with ${sizeBytes} bytes.`,
    right,
  );
}

function* inspectUsage(row: ExaminedRow): Generator<Found> {
  const usage = yield* summed(row.reader, row.key);
  const stated = row.value.length === countBytes ? decodeUsage(row.value) : undefined;
  if (
    stated?.documents === usage.documents &&
    stated.sizeBytes === usage.sizeBytes &&
    stated.namespaces === usage.namespaces
  )
    return;
  yield row.wrong(
    `The usage row is wrong: the user has ${usage.documents} documents in ${usage.namespaces} namespaces.`,
    encodeUsage(usage),
  );
}

/** User ‖ namespace, out of a document's key. */
function namespaceOf(key: Buffer): Buffer {
  return key.subarray(0, key.indexOf(0, userBytes));
}

function firstOf(reader: Reader, namespace: Buffer): Buffer | undefined {
  for (const { key } of reader.range(families.documents, { ...documentsOf(namespace), limit: 1 })) return key;
  return undefined;
}

function documentsOf(namespace: Buffer): RangeOptions {
  return prefixRange(Buffer.concat([namespace, Buffer.of(0)]));
}

/** A namespace by its documents. The time of the last write is that of the newest of them. */
function* counted(reader: Reader, namespace: Buffer): Generator<typeof turn, NamespaceRow> {
  const row: NamespaceRow = { count: 0, sizeBytes: 0, updatedAtMs: 0 };
  yield* eachRow(reader, families.documents, documentsOf(namespace), ({ key, value }) => {
    row.count += 1;
    row.sizeBytes += sizeOfRow(value);
    row.updatedAtMs = Math.max(row.updatedAtMs, msOf(decodeDocument(key, value, '').updatedAt));
  });
  return row;
}

/** The usage of a user, from the rows of its namespaces. Those were repaired before. */
function* summed(reader: Reader, user: Buffer): Generator<typeof turn, Usage> {
  const usage: Usage = { ...noUsage };
  yield* eachRow(reader, families.namespaces, prefixRange(user), ({ value }) => {
    if (value.length !== countBytes) return;
    const { count, sizeBytes } = decodeNamespace(value);
    usage.documents += count;
    usage.sizeBytes += sizeBytes;
    usage.namespaces += 1;
  });
  return usage;
}
