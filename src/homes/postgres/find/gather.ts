/** Reads the rows of one search: marks, segments and blocks in one statement, so in one snapshot. */
import { LRUCache } from 'lru-cache';
import { KeyQueue } from '../../../core/waiting/key-queue.js';
import { Slices } from '../../../core/waiting/yielding.js';
import type { EntryName } from '../../../find/model.js';
import { Catalog } from '../../../find/segments/catalog.js';
import { PlacedChanges } from '../../../find/segments/changes.js';
import { type ChangedPlaces, SegmentFacts } from '../../../find/segments/facts.js';
import { DeadPlaces, type WaitingEntry } from '../../../find/segments/segment.js';
import type { ViewedPartition, ViewedSegment } from '../../../find/segments/view.js';
import { type SeenWaiting, type Wanted, WaitingTerms } from '../../../find/segments/waiting.js';
import { type PostgresSql, query } from '../database/connection.js';
import { type MarkedRow, marksByPlace, nameKey } from './marks.js';
import type { MessageReader } from './messages.js';
import { readEntries } from './records.js';

interface GatheredRow {
  readonly what: 'mark' | 'segment' | 'block' | 'unindexed' | 'refiled';
  readonly owner: string;
  /** Of the mark or the segment. */
  readonly number: string;
  readonly kind: EntryName['kind'] | null;
  readonly collection: string | null;
  readonly id: string | null;
  /** A catalog, unless it is known; the body of a block. In base64: as hexadecimal text it took twice as long. */
  readonly bytes: string | null;
  /** Of a segment, unless this revision is known. */
  readonly facts: string | null;
  readonly dead: Buffer | null;
  /** Of the first posting in the block; of a segment, the revision of its facts. */
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

/** What every search of a segment reads, with the revision of the facts. */
interface KnownSegment {
  readonly catalog: Catalog;
  readonly facts: SegmentFacts;
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
  /** Namespaces that are being filed again. After `index: false` their words are missing until then. */
  readonly refiled: ReadonlySet<string>;
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

/**
 * The LIMITs are the lengths of the lists. PostgreSQL expects ten elements in an unknown list, but one with an unknown
 * limit. With ten it finds a plan for the given lists cheaper than one for all, and makes it again for each search: 0.80
 * instead of 0.46 ms of its processor time for a search for one word.
 */
const searchedOwners = '(SELECT name FROM unnest($1::text[]) AS name LIMIT $5) AS searched';
const wantedTerms = `(SELECT decode(term, 'hex') AS term FROM unnest($3::text[]) AS term LIMIT $6) AS wanted`;

const statement = `WITH s AS MATERIALIZED (
    SELECT owner, segment, dead, revision,
      CASE WHEN segment || '.' || revision = ANY($2::text[]) THEN NULL ELSE facts END AS facts,
      CASE WHEN segment = ANY($7::bigint[]) THEN NULL ELSE catalog END AS catalog
      FROM ${searchedOwners}, find.segments WHERE owner = searched.name),
  blocks AS (
    SELECT DISTINCT ON (s.owner, s.segment, f.first, f.place) s.owner, s.segment, f.body, f.first, f.place
      FROM s, ${wantedTerms}, LATERAL (${blockOfTerm}) AS f)
  SELECT 'mark' AS what, owner, mark AS number, kind, collection, id, NULL::text AS bytes,
      NULL::text AS facts, NULL::bytea AS dead, NULL::integer AS place, NULL::bytea AS first, version, author, time_ms
    FROM ${searchedOwners},
      LATERAL (SELECT * FROM find.marks WHERE owner = searched.name ORDER BY mark LIMIT $4) AS marks
  UNION ALL SELECT 'segment', owner, segment, NULL, NULL, NULL, encode(catalog, 'base64'),
    encode(facts, 'base64'), dead, revision, NULL,
    NULL, NULL, NULL FROM s
  UNION ALL SELECT 'block', owner, segment, NULL, NULL, NULL, encode(body, 'base64'), NULL, NULL, place, first,
    NULL, NULL, NULL FROM blocks
  UNION ALL SELECT 'unindexed', owner, 0, NULL, collection, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM ${searchedOwners}, find.namespace_settings WHERE owner = searched.name AND NOT indexed
  UNION ALL SELECT 'refiled', owner, 0, NULL, namespace, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM ${searchedOwners}, find.reindexing WHERE owner = searched.name AND namespace <> ''`;

export interface GatheringOptions {
  readonly sql: PostgresSql;
  readonly messages: MessageReader;
  /** Of the segments and the words of waiting entries in memory. */
  readonly cacheBytesMax: number;
}

export class Gathering {
  readonly #options: GatheringOptions;
  /** By owner: the segments that the last search saw. Their facts never change without their revision. */
  readonly #segments: LRUCache<string, ReadonlyMap<string, KnownSegment>>;
  /** By mark: what a waiting record had when it was read. A later write has a later mark. */
  readonly #waiting: LRUCache<string, { readonly entry: WaitingEntry | null }>;
  /** By owner. */
  readonly #reads = new KeyQueue();

  constructor(options: GatheringOptions) {
    this.#options = options;
    // A cache needs room for at least something.
    const maxSize = Math.max(1, Math.floor(options.cacheBytesMax / 2));
    this.#segments = new LRUCache({ maxSize, sizeCalculation: sizeOfSegments });
    this.#waiting = new LRUCache({
      maxSize,
      sizeCalculation: ({ entry }) => 200 + (entry?.packed.length ?? 0),
    });
  }

  /** The database was restored: it may give the numbers of marks and segments again. */
  forgetAll(): void {
    this.#segments.clear();
    this.#waiting.clear();
  }

  /** With the first marks of each owner, at most so many. */
  async read(
    owners: readonly string[],
    terms: readonly string[],
    marksMax: number,
  ): Promise<GatheredOwner[]> {
    const known = new Map(owners.flatMap((owner) => [...(this.#segments.get(owner) ?? [])]));
    const rows = await query<GatheredRow>(this.#options.sql, statement, [
      owners,
      Array.from(known, ([number, { revision }]) => `${number}.${revision}`),
      terms.map((term) => Buffer.from(term).toString('hex')),
      marksMax,
      owners.length,
      terms.length,
      [...known.keys()],
    ]);
    return owners.map((owner) => {
      const own = rows.filter((row) => row.owner === owner);
      const segments = new Map(
        own
          .filter(({ what }) => what === 'segment')
          .map((row): [string, KnownSegment] => [row.number, knownSegment(row, known.get(row.number))]),
      );
      this.#segments.set(owner, segments);
      return gathered(owner, own, segments);
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

/** The row has what is not known. */
function knownSegment({ bytes, facts, place }: GatheredRow, known: KnownSegment | undefined): KnownSegment {
  if (known !== undefined && facts === null) return known;
  const catalog = known?.catalog ?? new Catalog(Buffer.from(bytes ?? '', 'base64'));
  return {
    catalog,
    facts: new SegmentFacts(Buffer.from(facts ?? '', 'base64'), catalog.count),
    revision: place ?? 0,
  };
}

function gathered(
  owner: string,
  rows: readonly GatheredRow[],
  known: ReadonlyMap<string, KnownSegment>,
): GatheredOwner {
  const dead = new Map<string, Buffer>();
  const blocks = new Map<string, { first: Buffer; place: number; body: Buffer }[]>();
  const marks: MarkOfRow[] = [];
  const [unindexed, refiled] = [new Set<string>(), new Set<string>()];
  for (const row of rows) {
    const { what, number, kind, collection, id, bytes } = row;
    if (what === 'unindexed') unindexed.add(collection ?? '');
    else if (what === 'refiled') refiled.add(collection ?? '');
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
  const segments = [...known].map(([number, { catalog, facts }]) => ({
    number,
    catalog,
    facts,
    dead: new DeadPlaces(dead.get(number) ?? Buffer.alloc(0)),
  }));
  const { rewritten, changed } = placed(marks, segments);
  return {
    owner,
    unindexed,
    refiled,
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

function sizeOfSegments(segments: ReadonlyMap<string, KnownSegment>): number {
  let size = 200;
  for (const { catalog, facts } of segments.values()) size += 200 + catalog.sizeBytes + facts.sizeBytes;
  return size;
}
