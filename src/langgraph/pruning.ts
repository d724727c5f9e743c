/** Which documents of old checkpoints can be deleted. */
import type { ChannelVersions, CheckpointMetadata } from '@langchain/langgraph-checkpoint';
import { StoaError } from '../core/errors.js';
import type { Documents } from './in-process.js';
import {
  type DocumentKind,
  type Line,
  checkpointKey,
  linePrefix,
  newValuesKey,
  valueKey,
  writesPrefix,
} from './checkpoint-keys.js';

/** At least one of `keep` and `olderThanSeconds` must be given. */
export interface PruneOptions {
  /** Only this thread; the default is all threads. */
  threadId?: string | undefined;
  /** How many of the newest checkpoints stay in each line of checkpoints: a graph in a thread. The default is 1. */
  keep?: number | undefined;
  /** Only checkpoints that are older than this are deleted. */
  olderThanSeconds?: number | undefined;
}

export interface Pruned {
  checkpoints: number;
  /** The deleted documents: checkpoints, values and writes. */
  documents: number;
}

export interface PrunedCheckpoint extends Line {
  id: string;
  parent: string | null;
  v: number;
  ts: string;
  versions: ChannelVersions;
  places: Readonly<Record<string, string>>;
  metadata: CheckpointMetadata;
}

interface PruneRule {
  keep: number;
  olderThanSeconds: number | undefined;
}

export function checkedPrune({
  threadId,
  keep,
  olderThanSeconds,
}: PruneOptions): PruneRule & Pick<PruneOptions, 'threadId'> {
  if (keep === undefined && olderThanSeconds === undefined)
    throw refusal('prune needs keep or olderThanSeconds.');
  if (keep !== undefined && (!Number.isSafeInteger(keep) || keep < 0))
    throw refusal(`keep must be a whole number of 0 or more, got ${keep}.`);
  if (olderThanSeconds !== undefined && !(olderThanSeconds >= 0))
    throw refusal(`olderThanSeconds must be a number of 0 or more, got ${olderThanSeconds}.`);
  if (keep === 0 && olderThanSeconds === undefined)
    throw refusal('With keep: 0 and no olderThanSeconds, prune would delete every checkpoint.');
  return { threadId, keep: keep ?? 1, olderThanSeconds };
}

/**
 * `line` has all checkpoints of one line, the newest first. Only values that a deleted checkpoint names are
 * deleted: those of a put that is under way are named by none yet. Checkpoints come first in the keys, so
 * that an existing checkpoint never misses its values.
 */
export async function doomedKeys(
  data: Documents<unknown>,
  line: readonly PrunedCheckpoint[],
  rule: PruneRule,
): Promise<{ checkpoints: number; keys: string[] }> {
  const [first] = line;
  const staying = stayingIds(line, rule);
  const doomed = line.filter(({ id }) => !staying.has(id));
  if (first === undefined || doomed.length === 0) return { checkpoints: 0, keys: [] };
  const needed = new Set(line.filter(({ id }) => staying.has(id)).flatMap(valueKeysOf));
  const values = new Set(doomed.flatMap(valueKeysOf).filter((key) => !needed.has(key)));
  const writes = new Set(doomed.map((checkpoint) => writesPrefix(checkpoint, checkpoint.id)));
  const idStart = linePrefix('w', first).length;
  return {
    checkpoints: doomed.length,
    keys: [
      ...doomed.map((checkpoint) => checkpointKey(checkpoint, checkpoint.id)),
      ...(await keysIn(data, 'w', first)).filter((key) =>
        writes.has(key.slice(0, key.indexOf('/', idStart) + 1)),
      ),
      // A further piece of a long value has its key and a number.
      ...(await keysIn(data, 'v', first)).filter((key) => values.has(key.replace(/:\d{6}$/, ''))),
    ],
  };
}

function stayingIds(
  line: readonly PrunedCheckpoint[],
  { keep, olderThanSeconds }: PruneRule,
): ReadonlySet<string> {
  const beforeMs = olderThanSeconds === undefined ? Infinity : Date.now() - olderThanSeconds * 1_000;
  const byId = new Map(line.map((checkpoint) => [checkpoint.id, checkpoint]));
  const chosen = line.filter(({ ts }, index) => index < keep || !(Date.parse(ts) < beforeMs));
  const staying = new Set(chosen.map(({ id }) => id));
  for (const checkpoint of chosen) {
    let needs = deltaChannels(checkpoint);
    // Before version 4 the sends of a step are read from the writes of its parent.
    let needsParent = checkpoint.v < 4 || needs.length > 0;
    let parent = byId.get(checkpoint.parent ?? '');
    while (needsParent && parent !== undefined) {
      staying.add(parent.id);
      const further = deltaChannels(parent);
      needs = needs.filter((channel) => further.includes(channel));
      needsParent = needs.length > 0;
      parent = byId.get(parent.parent ?? '');
    }
  }
  return staying;
}

/** Channels that LangGraph rebuilds from the writes of earlier checkpoints, back to their last whole value. */
function deltaChannels({ metadata }: PrunedCheckpoint): string[] {
  return Object.keys(metadata.counters_since_delta_snapshot ?? {});
}

function valueKeysOf(checkpoint: PrunedCheckpoint): string[] {
  const { versions, places } = checkpoint;
  return [
    ...Object.values(places).map((id) => newValuesKey(checkpoint, id)),
    ...Object.entries(versions).map(([channel, version]) => valueKey(checkpoint, channel, version)),
  ];
}

async function keysIn(data: Documents<unknown>, kind: DocumentKind, line: Line): Promise<string[]> {
  const keys: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await data.listKeys({ prefix: linePrefix(kind, line), limit: 1_000, cursor });
    for (const { key } of page.items) keys.push(key);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return keys;
}

function refusal(detail: string): StoaError {
  return new StoaError('invalid_request', detail, {
    fix: 'Pass { keep: 10 }, { olderThanSeconds: 86400 } or both; deleteThread deletes a whole thread.',
  });
}
