/** Counted reads on Firestore: increments of one field that never touch what a write sets. */
import type { AccessRead } from '../../datastore/port.js';
import { laterTime } from '../../datastore/documents/times.js';
import {
  type Collection,
  type FieldValues,
  type FirestoreRequests,
  type Snapshot,
  grpc,
  isStatus,
} from './client.js';
import { newWriteId } from '../write-ids.js';
import { isOf } from '../fields.js';
import { nameOf } from './documents.js';

/** Attempts against writers to name the last reader; then the read is only counted. */
const attemptsMax = 3;

/**
 * Adds up the reads of one document that was just read. A deleted document, or one of another owner, is not
 * changed.
 */
export async function recordAccess(
  collection: Collection,
  values: FieldValues,
  requests: FirestoreRequests,
  read: AccessRead,
  seen: Snapshot,
): Promise<void> {
  const reference = collection.doc(nameOf(read.scope, read.key));
  const readsId = newWriteId();
  let snapshot = seen;
  for (let attempts = 1; ; attempts += 1) {
    const fields = snapshot.data();
    if (fields === undefined || !isOf(read.scope, fields)) return;
    // An attempt whose answer was lost has counted already.
    if (fields['readsId'] === readsId) return;
    const { lastAccessedAt } = fields;
    const isLater =
      read.last !== null &&
      laterTime(read.last.at, typeof lastAccessedAt === 'string' ? lastAccessedAt : null) === read.last.at;
    const names = isLater && attempts <= attemptsMax;
    const update = {
      accessCount: values.increment(read.count),
      readsId,
      ...(names && { lastAccessedAt: read.last?.at, lastAccessedByAgent: read.last?.agent }),
    };
    // On condition that the document was not changed, so that the last reader is right and a repeat is
    // detected; after many conflicts without the condition.
    const isGuarded = attempts <= attemptsMax && snapshot.updateTime !== undefined;
    const precondition = isGuarded ? { lastUpdateTime: snapshot.updateTime } : {};
    try {
      await requests.run(() => reference.update(update, precondition));
      return;
    } catch (error) {
      if (isStatus(error, grpc.notFound)) return;
      if (!isStatus(error, grpc.failedPrecondition) || !isGuarded) throw error;
    }
    snapshot = await requests.run(() => reference.get());
  }
}
