/** Reads the rows of one search: marks, segments and blocks in one statement, so in one snapshot. */
import { LRUCache } from 'lru-cache';
import { KeyQueue } from '../../../core/waiting/key-queue.js';
import { Slices } from '../../../core/waiting/yielding.js';
import type { EntryName } from '../../../find/model.js';
import { Catalog } from '../../../find/segments/catalog.js';
import { type ChangedPlaces, PlacedChanges } from '../../../find/segments/changes.js';
import { DeadPlaces, type WaitingEntry } from '../../../find/segments/segment.js';
import type { ViewedPartition, ViewedSegment } from '../../../find/segments/view.js';
import { type SeenWaiting, type Wanted, WaitingTerms } from '../../../find/segments/waiting.js';
import { type PostgresSql, query } from '../database/connection.js';
import { type MarkedRow, marksByPlace, nameKey } from './marks.js';
import type { MessageReader } from './messages.js';
import { readEntries } from './records.js';

interface GatheredRow {
  readonly what: 'mark' | 'segment' | 'block' | 'unindexed';
  readonly owner: string;
  /** Of the mark or the segment. */
  readonly number: string;
  readonly kind: EntryName['kind'] | null;
  readonly collection: string | null;
  readonly id: string | null;
  /** A catalog, unless it is known; the body of a block. In base64: as hexadecimal text it took twice as long. */
  readonly bytes: string | null;
  readonly dead: Buffer | null;
  /** Of the first posting in the block; of a segment, the revision of its catalog. */
  readonly place: number | null;
  /** The first term of the block. */
  readonly first: Buffer | null;
  /** Of a mark: the new facts, if the words are the same. */
  readonly version: string | null;
  readonly author: string | null;
  readonly time_ms: string | null;
}

/** A marked place with the number of its newest mark. */
interface Mark {
  readonly number: string;
  readonly name: EntryName;
}

/** A catalog in memory, with its revision. */
interface KnownCatalog {
  readonly catalog: Catalog;
  readonly revision: number;
}

/** A segment with the blocks that can have the terms of the query. */
export interface GatheredSegment extends ViewedSegment {
  readonly number: string;
}

/** What is stored for one owner. */
export interface GatheredOwner {
  readonly owner: string;
  /** How many marks were read. */
  readonly marksRead: number;
  /** The places whose words must be read. */
  readonly marks: readonly Mark[];
  readonly segments: readonly GatheredSegment[];
  /** The namespaces whose documents are not to be found by words. */
  readonly unindexed: ReadonlySet<string>;
}

/** Waiting records whose words one search reads. */
export const marksReadMax = 20_000;
/** Waiting records that are read together. Their words are dropped before the next ones are read. */
const marksPerRead = 256;

const blockOfTerm = `SELECT body, first, place FROM find.blocks b
    WHERE b.owner = s.owner AND b.segment = s.segment AND b.first = wanted.term
  UNION ALL (SELECT body, first, place FROM find.blocks b
    WHERE b.owner = s.owner AND b.segment = s.segment AND b.first < wanted.term
    ORDER BY first DESC, place DESC LIMIT 1)`;

const statement = `WITH s AS MATERIALIZED (
    SELECT owner, segment, dead, revision,
      CASE WHEN segment || '.' || revision = ANY($2::text[]) THEN NULL ELSE catalog END AS catalog
      FROM find.segments WHERE owner = ANY($1::text[])),
  blocks AS (
    SELECT DISTINCT ON (s.owner, s.segment, f.first, f.place) s.owner, s.segment, f.body, f.first, f.place
      FROM s, (SELECT decode(term, 'hex') AS term FROM unnest($3::text[]) AS term) AS wanted,
        LATERAL (${blockOfTerm}) AS f)
  SELECT 'mark' AS what, owner, mark AS number, kind, collection, id, NULL::text AS bytes,
      NULL::bytea AS dead, NULL::integer AS place, NULL::bytea AS first, version, author, time_ms
    FROM unnest($1::text[]) AS searched (name),
      LATERAL (SELECT * FROM find.marks WHERE owner = searched.name ORDER BY mark LIMIT $4) AS marks
  UNION ALL SELECT 'segment', owner, segment, NULL, NULL, NULL, encode(catalog, 'base64'), dead, revision, NULL,
    NULL, NULL, NULL FROM s
  UNION ALL SELECT 'block', owner, segment, NULL, NULL, NULL, encode(body, 'base64'), NULL, place, first,
    NULL, NULL, NULL FROM blocks
  UNION ALL SELECT 'unindexed', owner, 0, NULL, collection, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM find.namespace_settings WHERE owner = ANY($1::text[]) AND NOT indexed`;

export interface GatheringOptions {
  readonly sql: PostgresSql;
  readonly messages: MessageReader;
  /** Of the catalogs and the words of waiting entries in memory. */
  readonly cacheBytesMax: number;
}

export class Gathering {
  readonly #options: GatheringOptions;
  /** By owner: the catalogs of the segments that the last search saw. A catalog never changes without its revision. */
  readonly #catalogs: LRUCache<string, ReadonlyMap<string, KnownCatalog>>;
  /** By mark: what a waiting record had when it was read. A later write has a later mark. */
  readonly #waiting: LRUCache<string, { readonly entry: WaitingEntry | null }>;
  /** By owner. */
  readonly #reads = new KeyQueue();

  constructor(options: GatheringOptions) {
    this.#options = options;
    // A cache needs room for at least something.
    const maxSize = Math.max(1, Math.floor(options.cacheBytesMax / 2));
    this.#catalogs = new LRUCache({ maxSize, sizeCalculation: sizeOfCatalogs });
    this.#waiting = new LRUCache({
      maxSize,
      sizeCalculation: ({ entry }) => 200 + (entry?.packed.length ?? 0),
    });
  }

  /** With the first marks of each owner, at most so many. */
  async read(
    owners: readonly string[],
    terms: readonly string[],
    marksMax: number,
  ): Promise<GatheredOwner[]> {
    const known = new Map(owners.flatMap((owner) => [...(this.#catalogs.get(owner) ?? [])]));
    const rows = await query<GatheredRow>(this.#options.sql, statement, [
      owners,
      Array.from(known, ([number, { revision }]) => `${number}.${revision}`),
      terms.map((term) => Buffer.from(term).toString('hex')),
      marksMax,
    ]);
    return owners.map((owner) => {
      const own = rows.filter((row) => row.owner === owner);
      const catalogs = new Map(
        own
          .filter(({ what }) => what === 'segment')
          .map(({ number, bytes, place }): [string, KnownCatalog] => [
            number,
            bytes === null && known.has(number)
              ? (known.get(number) as KnownCatalog)
              : { catalog: new Catalog(Buffer.from(bytes ?? '', 'base64')), revision: place ?? 0 },
          ]),
      );
      this.#catalogs.set(owner, catalogs);
      return gathered(owner, own, catalogs);
    });
  }

  /**
   * The marked places of an owner with their entries as they are now. The time bounds how many are read: at least the
   * first ones are.
   */
  async partitionOf(
    { owner, marks, segments }: GatheredOwner,
    wanted: Wanted,
    untilMs: number,
  ): Promise<ViewedPartition & { readonly isComplete: boolean }> {
    const terms = new WaitingTerms(wanted);
    const waiting: SeenWaiting[] = [];
    const missing: Mark[] = [];
    const slices = new Slices();
    for (const mark of marks) {
      const known = this.#waiting.get(mark.number);
      if (known === undefined) missing.push(mark);
      else if (known.entry !== null) waiting.push(terms.of(known.entry));
      await slices.pause();
    }
    let at = 0;
    while (at < missing.length && (at === 0 || performance.now() < untilMs)) {
      const part = missing.slice(at, at + marksPerRead);
      // Of several searches one reads the words, and the others get them from the cache.
      for (const entry of await this.#reads.run(owner, () => this.#readMarks(owner, part))) {
        waiting.push(terms.of(entry));
        await slices.pause();
      }
      at += marksPerRead;
    }
    const marked = marks.map(({ name }) => name);
    return { segments, marked, waiting, isComplete: at >= missing.length };
  }

  async #readMarks(owner: string, marks: readonly Mark[]): Promise<WaitingEntry[]> {
    const { sql, messages } = this.#options;
    const known = marks.map(({ number }) => this.#waiting.get(number));
    const missing = marks.filter((_, index) => known[index] === undefined);
    const names = missing.map(({ name }) => name);
    const read = names.length === 0 ? [] : await readEntries(sql, owner, names, messages);
    const entries = new Map(read.map((entry) => [JSON.stringify(entry.name), entry]));
    for (const { number, name } of missing)
      this.#waiting.set(number, { entry: entries.get(JSON.stringify(name)) ?? null });
    return [...known.flatMap((one) => one?.entry ?? []), ...read];
  }
}

function gathered(
  owner: string,
  rows: readonly GatheredRow[],
  catalogs: ReadonlyMap<string, KnownCatalog>,
): GatheredOwner {
  const dead = new Map<string, Buffer>();
  const blocks = new Map<string, { first: Buffer; place: number; body: Buffer }[]>();
  const marks: MarkOfRow[] = [];
  const unindexed = new Set<string>();
  for (const row of rows) {
    const { what, number, kind, collection, id, bytes } = row;
    if (what === 'unindexed') unindexed.add(collection ?? '');
    else if (what === 'segment') dead.set(number, row.dead ?? Buffer.alloc(0));
    else if (what === 'block' && bytes !== null) {
      const own = blocks.get(number) ?? [];
      own.push({
        first: row.first ?? Buffer.alloc(0),
        place: row.place ?? 0,
        body: Buffer.from(bytes, 'base64'),
      });
      blocks.set(number, own);
    } else if (kind !== null && collection !== null && id !== null)
      marks.push({ ...row, number, kind, collection, id });
  }
  const segments = [...catalogs].map(([number, { catalog }]) => ({
    number,
    catalog,
    dead: new DeadPlaces(dead.get(number) ?? Buffer.alloc(0)),
  }));
  const { rewritten, changed } = placed(marks, segments);
  return {
    owner,
    unindexed,
    marksRead: marks.length,
    marks: rewritten,
    segments: segments.map((segment, index) => ({
      ...segment,
      changed: changed[index],
      blocks: (blocks.get(segment.number) ?? [])
        .toSorted((a, b) => a.first.compare(b.first) || a.place - b.place)
        .map(({ body }) => body),
    })),
  };
}

type MarkOfRow = MarkedRow & { readonly number: string };

/** The places whose words must be read, and the changes of the others in each segment. */
function placed(
  marks: readonly MarkOfRow[],
  segments: readonly { readonly catalog: Catalog; readonly dead: DeadPlaces }[],
): { rewritten: Mark[]; changed: readonly ChangedPlaces[] } {
  const inOrder = marks.toSorted((a, b) => Number(a.number) - Number(b.number));
  const newest = new Map(inOrder.map((mark) => [nameKey(mark), mark.number]));
  const placing = new PlacedChanges(segments);
  const rewritten = marksByPlace(inOrder).filter(({ change }) => change === null || !placing.add(change));
  return {
    rewritten: rewritten.map(({ name }) => ({ name, number: newest.get(nameKey(name)) ?? '' })),
    changed: placing.bySegment,
  };
}

function sizeOfCatalogs(catalogs: ReadonlyMap<string, KnownCatalog>): number {
  let size = 200;
  for (const { catalog } of catalogs.values()) size += 200 + catalog.sizeBytes;
  return size;
}
