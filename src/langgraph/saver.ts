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
  type CheckpointPendingWrite,
  type CheckpointTuple,
  type PendingWrite,
  type SerializerProtocol,
  TASKS,
  WRITES_IDX_MAP,
  copyCheckpoint,
  getCheckpointId,
  maxChannelVersion,
} from '@langchain/langgraph-checkpoint';
import type { DataClient, Stoa } from '../client/index.js';
import { StoaError } from '../core/errors.js';
import {
  type Line,
  checkpointKey,
  linePrefix,
  threadPrefix,
  valueKey,
  writesPrefix,
} from './checkpoint-keys.js';
import { type Config, configOf, required, textIn } from './config.js';
import { matches } from '../find/filter.js';
import { pathPrefix } from './keys.js';
import { type Packed, furtherKeys, pack, packWhole, unpack } from './packing.js';
import {
  type PruneOptions,
  type Pruned,
  type PrunedCheckpoint,
  checkedPrune,
  doomedKeys,
} from './pruning.js';
import { SharedWrites } from './shared-writes.js';
import {
  type Stored,
  type StoredCheckpoint,
  batchKeysMax,
  checkpointIn,
  furtherPieces,
  packedIn,
  writeIn,
} from './stored-documents.js';

export interface StoaSaverOptions {
  client: Stoa;
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
  readonly #data: DataClient<Stored>;
  readonly #writes: SharedWrites;

  constructor({ client, namespace = 'langgraph-checkpoints', serde }: StoaSaverOptions) {
    super(serde);
    this.#data = client.data<Stored>(namespace);
    this.#writes = new SharedWrites(client, this.#data);
  }

  override async getTuple(config: Config): Promise<CheckpointTuple | undefined> {
    const thread = textIn(config, 'thread_id');
    if (thread === undefined) return undefined;
    const line = { thread, ns: textIn(config, 'checkpoint_ns') ?? '' };
    const id = getCheckpointId(config);
    if (id !== '') {
      const stored = await this.#data.get(checkpointKey(line, id));
      return stored === undefined ? undefined : this.#tupleOf(checkpointIn(stored));
    }
    // The keys of newer checkpoints come first.
    for await (const { value } of this.#data.entries({ prefix: linePrefix('c', line), pageItems: 1 }))
      return this.#tupleOf(checkpointIn(value));
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
    let left = limit;
    for await (const { value } of this.#data.entries({ prefix })) {
      if (left <= 0) return;
      const stored = checkpointIn(value);
      if (ns !== undefined && stored.ns !== ns) continue;
      if (id !== undefined && stored.id !== id) continue;
      if (beforeId !== undefined && stored.id >= beforeId) continue;
      const metadata = await this.#metadataOf(stored);
      if (!matches(metadata, filter)) continue;
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
    const { channel_values: values, ...rest } = copyCheckpoint(checkpoint);
    const documents: Record<string, Stored> = {};
    for (const [channel, version] of Object.entries(newVersions)) {
      if (!Object.hasOwn(values, channel)) continue;
      Object.assign(
        documents,
        pack(valueKey(line, channel, version), ...(await this.serde.dumpsTyped(values[channel]))),
      );
    }
    const key = checkpointKey(line, checkpoint.id);
    // The checkpoint is written last, so that its values exist when it is found.
    documents[key] = {
      ...line,
      id: checkpoint.id,
      parent: textIn(config, 'checkpoint_id') ?? null,
      checkpoint: packWhole(...(await this.serde.dumpsTyped(rest))),
      metadata: packWhole(...(await this.serde.dumpsTyped(metadata))),
    };
    try {
      await this.#writes.now({ documents, created: new Set() });
    } catch (error) {
      throw error instanceof StoaError && error.code === 'too_large' ? tooLong(checkpoint.id, error) : error;
    }
    return configOf(line, checkpoint.id);
  }

  /**
   * The first write of a task is kept, so that running the task again changes nothing; errors and interrupts
   * are replaced.
   */
  override async putWrites(config: Config, writes: PendingWrite[], taskId: string): Promise<void> {
    if (writes.length === 0) return;
    const line = { thread: required(config, 'thread_id'), ns: textIn(config, 'checkpoint_ns') ?? '' };
    const prefix = writesPrefix(line, required(config, 'checkpoint_id'));
    const places = writes.map(([channel, value], index) => {
      const place = Object.hasOwn(WRITES_IDX_MAP, channel) ? (WRITES_IDX_MAP[channel] ?? index) : index;
      return {
        key: `${prefix}${pathPrefix([taskId])}${placeText(place)}`,
        channel,
        value,
        isKept: place >= 0,
      };
    });
    const packed = await Promise.all(
      places.map(async ({ key, channel, value, isKept }) => {
        const { [key]: first, ...further } = pack(key, ...(await this.serde.dumpsTyped(value)));
        // pack puts the first piece at the key it was given.
        return {
          key,
          isKept,
          pieces: { [key]: { ...(first as Packed), task: taskId, channel }, ...further },
        };
      }),
    );
    const isWritten = await this.#writes.soon({
      documents: Object.assign({}, ...packed.map(({ pieces }) => pieces)) as Record<string, Stored>,
      created: new Set(packed.filter(({ isKept }) => isKept).map(({ key }) => key)),
    });
    if (isWritten) return;
    const there = await this.#data.getMany(packed.filter(({ isKept }) => isKept).map(({ key }) => key));
    const documents: Record<string, Stored> = {};
    for (const { key, pieces } of packed) if (!Object.hasOwn(there, key)) Object.assign(documents, pieces);
    if (Object.keys(documents).length > 0) await this.#writes.now({ documents, created: new Set() });
  }

  /** Checkpoints are deleted first, so that an existing checkpoint never misses its values. */
  override async deleteThread(threadId: string): Promise<void> {
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
      const { thread, ns, id, parent } = stored;
      const metadata = await this.#metadataOf(stored);
      line.push({ thread, ns, id, parent, v, ts, versions: channel_versions, metadata });
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

  async #tupleOf(stored: StoredCheckpoint): Promise<CheckpointTuple> {
    // The serializer gives back what put gave it.
    const rest = (await this.#load(stored.checkpoint)) as Omit<Checkpoint, 'channel_values'>;
    const [values, pendingWrites, metadata] = await Promise.all([
      this.#valuesOf(stored, rest.channel_versions),
      this.#writesOf(stored, stored.id),
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

  async #valuesOf(line: Line, versions: ChannelVersions): Promise<Record<string, unknown>> {
    const channels = Object.entries(versions).map(([channel, version]) => ({
      channel,
      key: valueKey(line, channel, version),
    }));
    if (channels.length === 0) return {};
    const firsts = await this.#data.getMany(channels.map(({ key }) => key));
    const present = channels.flatMap(({ channel, key }) =>
      firsts[key] === undefined ? [] : [{ channel, key, packed: packedIn(firsts[key]) }],
    );
    const furthers = present.flatMap(({ key, packed }) => furtherKeys(key, packed));
    const pieces = furthers.length === 0 ? {} : await this.#data.getMany(furthers);
    return Object.fromEntries(
      await Promise.all(
        present.map(
          async ({ channel, key, packed }) =>
            [channel, await this.#load(packed, furtherPieces(key, packed, pieces))] as const,
        ),
      ),
    );
  }

  async #writesOf(line: Line, id: string): Promise<CheckpointPendingWrite[]> {
    const documents = await this.#data.getAll({ prefix: writesPrefix(line, id) });
    const firsts = Object.entries(documents).flatMap(([key, stored]) =>
      typeof stored === 'string' ? [] : [{ key, write: writeIn(stored) }],
    );
    return Promise.all(
      firsts.map(
        async ({ key, write }) =>
          [
            write.task,
            write.channel,
            await this.#load(write, furtherPieces(key, write, documents)),
          ] as CheckpointPendingWrite,
      ),
    );
  }

  /** Before version 4 the sends of a step were stored as writes of its parent, not in a channel. */
  async #migrateSends(checkpoint: Checkpoint, line: Line, parent: string): Promise<void> {
    const writes = await this.#writesOf(line, parent);
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_values[TASKS] = writes
      .filter(([, channel]) => channel === TASKS)
      .map(([, , value]) => value);
    checkpoint.channel_versions[TASKS] =
      versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
  }

  #load(packed: Packed, further: readonly string[] = []): Promise<unknown> {
    return this.serde.loadsTyped(packed.type, unpack(packed, further));
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

/** Texts that sort as the numbers do, from the special places below zero on. */
function placeText(place: number): string {
  return String(place + 100).padStart(8, '0');
}
