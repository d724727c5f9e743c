/** Deletions that return what they deleted. */
import { mapInFlight } from '../in-flight.js';
import { contended } from '../retries.js';
import {
  type Firestore,
  type FirestoreRequests,
  type Snapshot,
  conditionOf,
  grpc,
  isStatus,
} from './client.js';

/**
 * Deletes the documents and returns those that existed: in one commit, or one by one if another client
 * changed them.
 */
export async function deleteAll(
  firestore: Firestore,
  requests: FirestoreRequests,
  snapshots: readonly Snapshot[],
): Promise<readonly Snapshot[]> {
  if (snapshots.length === 0) return [];
  const commit = firestore.batch();
  for (const snapshot of snapshots) commit.delete(snapshot.ref, conditionOf(snapshot));
  let isUnsure = false;
  try {
    await requests.run(
      () => commit.commit(),
      () => (isUnsure = true),
    );
    return snapshots;
  } catch (error) {
    if (!isTouched(error)) throw error;
  }
  const deleted = await mapInFlight(snapshots, requests.limits.backendInFlightMax, (snapshot) =>
    deleteOneByOne(requests, snapshot, isUnsure),
  );
  return snapshots.filter((_, index) => deleted[index] === true);
}

/** True if the document was unchanged since it was read and is now deleted. */
export async function deleteUnchanged(requests: FirestoreRequests, snapshot: Snapshot): Promise<boolean> {
  try {
    await requests.run(() => snapshot.ref.delete(conditionOf(snapshot)));
    return true;
  } catch (error) {
    if (isTouched(error)) return false;
    throw error;
  }
}

/** True if a document existed. After a lost answer, a missing document counts as deleted by that attempt. */
async function deleteOneByOne(
  requests: FirestoreRequests,
  seen: Snapshot,
  isUnsure: boolean,
): Promise<boolean> {
  let snapshot = seen;
  for (let attempts = 1; attempts <= requests.limits.updateAttemptsMax; attempts += 1) {
    if (await deleteUnchanged(requests, snapshot)) return true;
    snapshot = await requests.run(() => seen.ref.get());
    if (snapshot.data() === undefined && isUnsure) return true;
    // Another owner's document may have taken the id meanwhile.
    if (
      snapshot.data()?.['userId'] !== seen.data()?.['userId'] ||
      snapshot.data()?.['namespace'] !== seen.data()?.['namespace']
    )
      return false;
  }
  throw contended(String(seen.data()?.['key']), requests.limits.updateAttemptsMax);
}

function isTouched(error: unknown): boolean {
  return isStatus(error, grpc.failedPrecondition, grpc.notFound, grpc.aborted);
}
