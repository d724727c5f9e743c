/** Counted reads on Firestore: increments of one field that never touch what a write sets. */
import type { AccessRead } from '../../datastore/port.js';
import { laterTime } from '../../datastore/times.js';
import type { Limits } from '../../limits.js';
import { type Collection, type FieldValues, type Snapshot, grpc, isStatus, request } from './client.js';
import { isOf, nameOf } from './documents.js';

/** Attempts to name the last reader against writers; then the read is only counted. */
const attemptsMax = 3;

/** Adds up the reads of one document, as it was just seen; one that is gone, or another owner's, is left alone. */
export async function recordAccess(collection: Collection, values: FieldValues, limits: Limits, read: AccessRead, seen: Snapshot): Promise<void> {
  const reference = collection.doc(nameOf(read.scope, read.key));
  let snapshot = seen;
  for (let attempts = 1; ; attempts += 1) {
    const fields = snapshot.data();
    if (fields === undefined || !isOf(read.scope, fields)) return;
    const { lastAccessedAt } = fields;
    const isLater = read.last !== null && laterTime(read.last.at, typeof lastAccessedAt === 'string' ? lastAccessedAt : null) === read.last.at;
    const names = isLater && attempts <= attemptsMax;
    const update = { accessCount: values.increment(read.count), ...(names && { lastAccessedAt: read.last?.at, lastAccessedByAgent: read.last?.agent }) };
    // Who read last may only be named over what was looked at; a count adds to whatever is there.
    const precondition = names && snapshot.updateTime !== undefined ? { lastUpdateTime: snapshot.updateTime } : {};
    try {
      await request(limits, () => reference.update(update, precondition));
      return;
    } catch (error) {
      if (isStatus(error, grpc.notFound)) return;
      if (!isStatus(error, grpc.failedPrecondition) || !names) throw error;
    }
    snapshot = await request(limits, () => reference.get());
  }
}
