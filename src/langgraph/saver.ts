/**
 * LangGraph's checkpoints in the data store: every checkpoint, channel value and pending write is a document
 * of one namespace.
 */
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type PendingWrite,
  type SerializerProtocol,
  TASKS,
  copyCheckpoint,
  getCheckpointId,
  maxChannelVersion,
} from '@langchain/langgraph-checkpoint';
import { StoaError } from '../core/errors.js';
import { KeyQueue } from '../core/waiting/key-queue.js';
import { type Line, checkpointKey, linePrefix, threadPrefix } from './checkpoint-keys.js';
import { ChannelValues } from './channel-values.js';
import { type Config, configOf, required, textIn } from './config.js';
import { filterOf } from '../find/filter.js';
import type { Documents, StoaCalls } from './in-process.js';
import { type Packed, packWhole, unpack } from './packing.js';
import { PendingWrites } from './pending-writes.js';
import {
  type PruneOptions,
  type Pruned,
  type PrunedCheckpoint,
  checkedPrune,
  doomedKeys,
} from './pruning.js';
import { SharedWrites } from './shared-writes.js';
import { type Stored, type StoredCheckpoint, batchKeysMax, checkpointIn } from './stored-documents.js';

export interface StoaSaverOptions {
  /** The client of a server, or `inProcess(stoa, caller)`. */
  client: StoaCalls;
  /** The namespace of the data store that holds the checkpoints. */
  namespace?: string | undefined;
  /** Serializes values; the default is LangGraph's serializer. */
  serde?: SerializerProtocol | undefined;
}

/**
 * @example
 * const checkpointer = new StoaSaver({ client: new Stoa({ url, token }) });
 * const graph = builder.compile({ checkpointer });
 */
export class StoaSaver extends BaseCheckpointSaver {
  readonly #data: Documents<Stored>;
  readonly #writes: SharedWrites;
  readonly #values: ChannelValues;
  readonly #pending: PendingWrites;
  /** By line: the next checkpoint finds its unchanged values by those before it. */
  readonly #puts = new KeyQueue();

  constructor({ client, namespace = 'langgraph-checkpoints', serde }: StoaSaverOptions) {
    super(serde);
    this.#data = client.data<Stored>(namespace);
    this.#writes = new SharedWrites(client, this.#data);
    this.#values = new ChannelValues(this.#data, this.serde);
    this.#pending = new PendingWrites(this.#data, this.#writes, this.serde);
  }

  override async getTuple(config: Config): Promise<CheckpointTuple | undefined> {
    const thread = textIn(config, 'thread_id');
    if (thread === undefined) return undefined;
    const line = { thread, ns: textIn(config, 'checkpoint_ns') ?? '' };
    const id = getCheckpointId(config);
    if (id !== '') {
      const stored = await this.#data.get(checkpointKey(line, id));
      return stored === undefined ? undefined : this.#continued(checkpointIn(stored));
    }
    // The keys of newer checkpoints come first.
    for await (const { value } of this.#data.entries({ prefix: linePrefix('c', line), pageItems: 1 }))
      return this.#continued(checkpointIn(value));
    return undefined;
  }

  /** The newest first within a line; lines in order of thread and namespace. */
  override async *list(
    config: Config,
    { limit = Number.POSITIVE_INFINITY, before, filter = {} }: CheckpointListOptions = {},
  ): AsyncGenerator<CheckpointTuple> {
    const [thread, ns, id] = [
      textIn(config, 'thread_id'),
      textIn(config, 'checkpoint_ns'),
      textIn(config, 'checkpoint_id'),
    ];
    const beforeId = before === undefined ? undefined : textIn(before, 'checkpoint_id');
    const prefix =
      thread === undefined
        ? 'c/'
        : ns === undefined
          ? threadPrefix('c', thread)
          : linePrefix('c', { thread, ns });
    const passes = filterOf(filter);
    let left = limit;
    for await (const { value } of this.#data.entries({ prefix })) {
      if (left <= 0) return;
      const stored = checkpointIn(value);
      if (ns !== undefined && stored.ns !== ns) continue;
      if (id !== undefined && stored.id !== id) continue;
      if (beforeId !== undefined && stored.id >= beforeId) continue;
      const metadata = await this.#metadataOf(stored);
      if (!passes(metadata)) continue;
      left -= 1;
      yield this.#tupleOf(stored);
    }
  }

  /** The checkpoint and the channel values that are new in it, in one step. */
  override async put(
    config: Config,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<Config> {
    const line = { thread: required(config, 'thread_id'), ns: textIn(config, 'checkpoint_ns') ?? '' };
    const copied = copyCheckpoint(checkpoint);
    return this.#puts.run(linePrefix('c', line), () =>
      this.#put(line, textIn(config, 'checkpoint_id') ?? null, copied, metadata, newVersions),
    );
  }

  async #put(
    line: Line,
    parent: string | null,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<Config> {
    const { channel_values: _values, ...rest } = checkpoint;
    const { documents, places } = await this.#values.pack(line, checkpoint, newVersions);
    const key = checkpointKey(line, checkpoint.id);
    // The checkpoint is written last, so that its values exist when it is found.
    documents[key] = {
      ...line,
      id: checkpoint.id,
      parent,
      places,
      checkpoint: packWhole(...(await this.serde.dumpsTyped(rest))),
      metadata: packWhole(...(await this.serde.dumpsTyped(metadata))),
    };
    try {
      await this.#writes.now({ documents, created: new Set() });
    } catch (error) {
      throw error instanceof StoaError && error.code === 'too_large' ? tooLong(checkpoint.id, error) : error;
    }
    this.#values.remember(line, rest.channel_versions, places);
    return configOf(line, checkpoint.id);
  }

  /**
   * The first write of a task is kept, so that running the task again changes nothing; errors and interrupts
   * are replaced.
   */
  override async putWrites(config: Config, writes: PendingWrite[], taskId: string): Promise<void> {
    if (writes.length === 0) return;
    const line = { thread: required(config, 'thread_id'), ns: textIn(config, 'checkpoint_ns') ?? '' };
    await this.#pending.put(line, required(config, 'checkpoint_id'), taskId, writes);
  }

  /** Checkpoints are deleted first, so that an existing checkpoint never misses its values. */
  override async deleteThread(threadId: string): Promise<void> {
    this.#values.forget();
    for (const kind of ['c', 'w', 'v'] as const) {
      for (;;) {
        const { items, next_cursor } = await this.#data.listKeys({
          prefix: threadPrefix(kind, threadId),
          limit: batchKeysMax,
        });
        if (items.length > 0) await this.#data.batch({ delete: items.map(({ key }) => key) });
        if (next_cursor === null) break;
      }
    }
  }

  /**
   * Deletes old checkpoints with the values and writes that only they need. The newest `keep` of each line
   * stay, and those that a checkpoint that stays is rebuilt from.
   *
   * @example
   * await checkpointer.prune({ keep: 10 });                                  // the last ten steps of each thread
   * await checkpointer.prune({ keep: 0, olderThanSeconds: 30 * 24 * 3600 }); // also whole threads
   */
  async prune(options: PruneOptions): Promise<Pruned> {
    const { threadId, ...rule } = checkedPrune(options);
    const pruned: Pruned = { checkpoints: 0, documents: 0 };
    let line: PrunedCheckpoint[] = [];
    const flush = async (): Promise<void> => {
      const { checkpoints, keys } = await doomedKeys(this.#data, line, rule);
      for (let start = 0; start < keys.length; start += batchKeysMax)
        await this.#data.batch({ delete: keys.slice(start, start + batchKeysMax) });
      pruned.checkpoints += checkpoints;
      pruned.documents += keys.length;
      line = [];
    };
    const prefix = threadId === undefined ? 'c/' : threadPrefix('c', threadId);
    for await (const { value } of this.#data.entries({ prefix })) {
      const stored = checkpointIn(value);
      if (line[0] !== undefined && (line[0].thread !== stored.thread || line[0].ns !== stored.ns))
        await flush();
      // The serializer gives back what put gave it.
      const { v, ts, channel_versions } = (await this.#load(stored.checkpoint)) as Checkpoint;
      const { thread, ns, id, parent, places } = stored;
      const metadata = await this.#metadataOf(stored);
      line.push({ thread, ns, id, parent, v, ts, versions: channel_versions, places, metadata });
    }
    await flush();
    return pruned;
  }

  /**
   * Whole steps with a random fraction. Two branches of a thread count on from the same version, and
   * the value of one must not take the place of the other's.
   */
  override getNextVersion(current: number | undefined): number {
    return Math.floor(current ?? 0) + 1 + Math.random();
  }

  /** The next checkpoint of the line probably follows this one. */
  async #continued(stored: StoredCheckpoint): Promise<CheckpointTuple> {
    const tuple = await this.#tupleOf(stored);
    this.#values.remember(stored, tuple.checkpoint.channel_versions, stored.places);
    return tuple;
  }

  async #tupleOf(stored: StoredCheckpoint): Promise<CheckpointTuple> {
    // The serializer gives back what put gave it.
    const rest = (await this.#load(stored.checkpoint)) as Omit<Checkpoint, 'channel_values'>;
    const [values, pendingWrites, metadata] = await Promise.all([
      this.#values.load(stored, rest.channel_versions),
      this.#pending.load(stored, stored.id),
      this.#metadataOf(stored),
    ]);
    const checkpoint: Checkpoint = { ...rest, channel_values: values };
    if (checkpoint.v < 4 && stored.parent !== null)
      await this.#migrateSends(checkpoint, stored, stored.parent);
    return {
      config: configOf(stored, stored.id),
      checkpoint,
      metadata,
      pendingWrites,
      ...(stored.parent !== null && { parentConfig: configOf(stored, stored.parent) }),
    };
  }

  async #metadataOf({ metadata }: StoredCheckpoint): Promise<CheckpointMetadata> {
    return (await this.#load(metadata)) as CheckpointMetadata; // The serializer gives back what put gave it.
  }

  /** Before version 4 the sends of a step were stored as writes of its parent, not in a channel. */
  async #migrateSends(checkpoint: Checkpoint, line: Line, parent: string): Promise<void> {
    const writes = await this.#pending.load(line, parent);
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_values[TASKS] = writes
      .filter(([, channel]) => channel === TASKS)
      .map(([, , value]) => value);
    checkpoint.channel_versions[TASKS] =
      versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
  }

  #load(packed: Packed): Promise<unknown> {
    return this.serde.loadsTyped(packed.type, unpack(packed, []));
  }
}

/** Values are split, so only the metadata beside them can be too long. */
function tooLong(id: string, cause: StoaError): StoaError {
  return new StoaError(
    'too_large',
    `The checkpoint ${id} is too long for one document, even without its values: ${cause.message}`,
    {
      cause,
      fix: 'Store long values in a channel, not in the metadata, or raise valueBytesMax of the server.',
      ...(cause.details !== undefined && { details: cause.details }),
    },
  );
}
