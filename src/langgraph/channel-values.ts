/**
 * The channel values of checkpoints. The short values that are new in a checkpoint are one document, each long value
 * has its own. A checkpoint names the documents of its short values: its own, and those of earlier checkpoints for the
 * values that did not change.
 */
import type { ChannelVersions, Checkpoint, SerializerProtocol } from '@langchain/langgraph-checkpoint';
import { type Line, linePrefix, newValuesKey, valueKey } from './checkpoint-keys.js';
import type { Documents } from './in-process.js';
import {
  type Packed,
  furtherKeys,
  isShort,
  packWhole,
  sharedCharacters,
  sharedCharactersMax,
  split,
  unpack,
} from './packing.js';
import {
  type Stored,
  type StoredCheckpoint,
  checkpointIn,
  furtherPieces,
  newValuesIn,
  packedIn,
} from './stored-documents.js';

type Places = Readonly<StoredCheckpoint['places']>;

/** Where a checkpoint has its short values. */
interface Known {
  readonly versions: ChannelVersions;
  readonly places: Places;
}

/** Lines that are remembered. The checkpoints of another line are read. */
const linesKnownMax = 1_000;

export class ChannelValues {
  readonly #data: Documents<Stored>;
  readonly #serde: SerializerProtocol;
  /** By line: the checkpoint that was read or written last. Without it, each step would read the one before. */
  readonly #known = new Map<string, Known>();

  constructor(data: Documents<Stored>, serde: SerializerProtocol) {
    this.#data = data;
    this.#serde = serde;
  }

  /** The documents of the values that are new in a checkpoint, and the places of all its short values. */
  async pack(
    line: Line,
    { id, channel_values: values, channel_versions: versions }: Checkpoint,
    newVersions: ChannelVersions,
  ): Promise<{ documents: Record<string, Stored>; places: Record<string, string> }> {
    const places = await this.#placesOf(line, versions, newVersions);
    // A checkpoint that is written again replaces its document, which may have values that are not new this time.
    const again = [...places].filter(([, place]) => place === id).map(([channel]) => channel);
    const documents: Record<string, Stored> = {};
    const short: [string, Packed][] = [];
    let characters = 0;
    for (const channel of new Set([...Object.keys(newVersions), ...again])) {
      places.delete(channel);
      if (!Object.hasOwn(values, channel)) continue;
      const packed = packWhole(...(await this.#serde.dumpsTyped(values[channel])));
      const version = newVersions[channel] ?? versions[channel] ?? '';
      const added = sharedCharacters(channel, packed);
      if (isShort(packed) && characters + added <= sharedCharactersMax) {
        short.push([channel, packed]);
        characters += added;
        places.set(channel, id);
      } else Object.assign(documents, split(valueKey(line, channel, version), packed));
    }
    if (short.length > 0) documents[newValuesKey(line, id)] = { values: Object.fromEntries(short) };
    return { documents, places: Object.fromEntries(places) };
  }

  /** The values of a checkpoint that was read. */
  async load(
    { places, ...line }: StoredCheckpoint,
    versions: ChannelVersions,
  ): Promise<Record<string, unknown>> {
    const channels = Object.entries(versions).map(([channel, version]) => {
      const id = placeOf(places, channel);
      return {
        channel,
        id,
        key: id === undefined ? valueKey(line, channel, version) : newValuesKey(line, id),
      };
    });
    const found = await this.#read(new Set(channels.map(({ key }) => key)));
    const present = channels.flatMap(({ channel, id, key }) => {
      const stored = found[key];
      if (stored === undefined) return [];
      const packed = id === undefined ? packedIn(stored) : newValuesIn(stored)[channel];
      return packed === undefined ? [] : [{ channel, key, packed }];
    });
    const pieces = await this.#read(new Set(present.flatMap(({ key, packed }) => furtherKeys(key, packed))));
    return Object.fromEntries(
      await Promise.all(
        present.map(async ({ channel, key, packed }) => {
          const bytes = unpack(packed, furtherPieces(key, packed, pieces));
          return [channel, await this.#serde.loadsTyped(packed.type, bytes)] as const;
        }),
      ),
    );
  }

  /** The next checkpoint of the line probably follows one with these values. */
  remember(line: Line, versions: ChannelVersions, places: Places): void {
    const key = linePrefix('v', line);
    this.#known.delete(key);
    this.#known.set(key, { versions: { ...versions }, places });
    for (const [oldest] of this.#known) {
      if (this.#known.size <= linesKnownMax) break;
      this.#known.delete(oldest);
    }
  }

  /** A thread was deleted. */
  forget(): void {
    this.#known.clear();
  }

  /**
   * The places of the values that are not new. A value is the same as that of another checkpoint of the line if the
   * version of its channel is the same.
   */
  async #placesOf(
    line: Line,
    versions: ChannelVersions,
    newVersions: ChannelVersions,
  ): Promise<Map<string, string>> {
    const places = new Map<string, string>();
    let unknown = Object.keys(versions).filter((channel) => !Object.hasOwn(newVersions, channel));
    const takeFrom = (known: Known): void => {
      unknown = unknown.filter((channel) => {
        if (known.versions[channel] !== versions[channel]) return true;
        const place = placeOf(known.places, channel);
        if (place !== undefined) places.set(channel, place);
        return false;
      });
    };
    const known = this.#known.get(linePrefix('v', line));
    if (known !== undefined) takeFrom(known);
    if (unknown.length === 0) return places;
    for await (const { value } of this.#data.entries({ prefix: linePrefix('c', line) })) {
      const stored = checkpointIn(value);
      const { type } = stored.checkpoint;
      // The serializer gives back what put gave it.
      const { channel_versions } = (await this.#serde.loadsTyped(
        type,
        unpack(stored.checkpoint, []),
      )) as Checkpoint;
      takeFrom({ versions: channel_versions, places: stored.places });
      if (unknown.length === 0) break;
    }
    return places;
  }

  async #read(keys: ReadonlySet<string>): Promise<Record<string, Stored>> {
    return keys.size === 0 ? {} : this.#data.getMany([...keys]);
  }
}

/** A channel may be named like a member of every object. */
function placeOf(places: Places, channel: string): string | undefined {
  return Object.hasOwn(places, channel) ? places[channel] : undefined;
}
