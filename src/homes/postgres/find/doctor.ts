/**
 * Proves that the search index in PostgreSQL has every thing exactly once, with the words of its record, and
 * nothing else. What looks wrong is looked at again in one snapshot, because others write meanwhile.
 */
import { messageOf } from '../../../core/errors.js';
import { Slices } from '../../../core/waiting/yielding.js';
import {
  type ComparedSegment,
  type EntryState,
  type Suspect,
  entryRepair,
  livingPlaces,
  problemOf,
  suspectAt,
} from '../../../find/examine/states.js';
import type { EntryName } from '../../../find/model.js';
import { Catalog } from '../../../find/segments/catalog.js';
import { SegmentFacts } from '../../../find/segments/facts.js';
import { DeadPlaces, type WaitingEntry } from '../../../find/segments/segment.js';
import type { DamageKind, ExaminedFinding, OnProgress } from '../../../operations/model.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { transaction } from '../database/transaction.js';
import { examinedSegment } from './examined-segments.js';
import type { Filing } from './filing.js';
import type { SearchedMessages } from './messages.js';
import { nextOwner, ownedKinds, readNames } from './names.js';
import { readEntries } from './records.js';
import { reindexedNamespaces } from './reindex/jobs.js';
import { markNames } from './reindex/reindex.js';
import { messagesOwner } from './schema.js';
import type { SegmentRow } from './segment-rows.js';

export interface IndexExamination {
  readonly sql: PostgresSql;
  readonly messages: SearchedMessages;
  readonly filing: Filing;
  readonly nowMs: () => number;
  readonly deadSecondsMax: number;
  /** When this process began to file. */
  readonly openedAtMs: number;
  readonly repair: boolean;
  readonly onProgress: OnProgress | undefined;
}

/** Names that are read, and looked at again, together. */
const namesPerPage = 256;

type Segments = ReadonlyMap<string, Pick<ComparedSegment, 'catalog' | 'facts' | 'dead'>>;

export async function* examineIndex(examination: IndexExamination): AsyncGenerator<ExaminedFinding> {
  yield* orphanBlocks(examination);
  const { sql, onProgress } = examination;
  const [{ entries } = { entries: '0' }] = await query<{ entries: string }>(
    sql,
    'SELECT coalesce(sum(entries), 0) AS entries FROM find.segments',
  );
  // Every thing is looked at as an entry of the index and as a record.
  const total = 2 * Number(entries);
  let done = 0;
  const onEntries = (count: number): void => {
    done += count;
    onProgress?.({ phase: 'index', done: Math.min(done, total), total });
  };
  for (let owner = await nextOwner(sql, ''); owner !== undefined; owner = await nextOwner(sql, owner))
    yield* new OwnerExamination(examination, owner, onEntries).run();
  yield* new OwnerExamination(examination, messagesOwner, onEntries).run();
}

/** Blocks of segments that do not exist. A segment and its blocks are written and deleted in one transaction. */
async function* orphanBlocks({ sql, repair }: IndexExamination): AsyncGenerator<ExaminedFinding> {
  const condition = `NOT EXISTS (SELECT FROM find.segments s WHERE s.owner = b.owner AND s.segment = b.segment)`;
  const rows = await query<{ owner: string; segment: string; blocks: string }>(
    sql,
    `SELECT owner, segment, count(*) AS blocks FROM find.blocks b WHERE ${condition} GROUP BY owner, segment`,
  );
  for (const { owner, segment, blocks } of rows) {
    if (repair)
      await query(
        sql,
        `DELETE FROM find.blocks b WHERE owner = $1 AND segment = $2::bigint AND ${condition}`,
        [owner, segment],
      );
    yield {
      shard: 0,
      family: 'find.blocks',
      key: `${owner} ${segment}`,
      kind: 'dangling',
      problem: `${blocks} blocks belong to a segment of the search index that does not exist.`,
      repair: 'delete the blocks',
      repaired: repair,
    };
  }
}

class OwnerExamination {
  readonly #options: IndexExamination;
  readonly #owner: string;
  readonly #onEntries: (entries: number) => void;
  /** Segments that cannot be read. They are removed after their things are marked. */
  readonly #unreadable = new Set<string>();

  constructor(options: IndexExamination, owner: string, onEntries: (entries: number) => void) {
    this.#options = options;
    this.#owner = owner;
    this.#onEntries = onEntries;
  }

  async *run(): AsyncGenerator<ExaminedFinding> {
    const { sql, repair } = this.#options;
    const rows = await query<{ segment: string }>(
      sql,
      'SELECT segment FROM find.segments WHERE owner = $1 ORDER BY segment',
      [this.#owner],
    );
    for (const { segment } of rows)
      try {
        yield* this.#segment(segment);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        this.#unreadable.add(segment);
        yield this.#finding(
          'unreadable',
          segment,
          `A segment of the search index cannot be read: ${messageOf(error)}`,
          'mark its things and delete it',
        );
      }
    for await (const names of this.#records()) {
      yield* this.#missing(names);
      this.#onEntries(names.length);
    }
    yield* this.#oldMarks();
    if (!repair || this.#unreadable.size === 0) return;
    for (const table of ['find.segments', 'find.blocks'])
      await query(sql, `DELETE FROM ${table} WHERE owner = $1 AND segment = ANY($2::bigint[])`, [
        this.#owner,
        [...this.#unreadable],
      ]);
  }

  #finding(
    kind: DamageKind,
    segment: string,
    problem: string,
    repair = 'write the row again',
  ): ExaminedFinding {
    const key = `${this.#owner} ${segment}`;
    return { shard: 0, family: 'find.segments', key, kind, problem, repair, repaired: this.#options.repair };
  }

  async *#segment(segment: string): AsyncGenerator<ExaminedFinding> {
    const { sql, messages, nowMs } = this.#options;
    const compared = await examinedSegment(sql, this.#owner, segment);
    if (compared === undefined) return;
    yield* this.#row(segment, compared);
    const living = livingPlaces(compared, nowMs());
    const slices = new Slices();
    for (let at = 0; at < living.length; at += namesPerPage) {
      const places = living.slice(at, at + namesPerPage);
      const names = places.map((place) => compared.catalog.name(place));
      const entries = byName(await readEntries(sql, this.#owner, names, messages));
      const suspects: Suspect[] = [];
      for (const [index, place] of places.entries()) {
        const suspect = suspectAt(compared, place, entries.get(JSON.stringify(names[index])));
        if (suspect !== null) suspects.push(suspect);
        await slices.pause();
      }
      yield* this.#look(suspects);
      this.#onEntries(places.length);
    }
  }

  /** The counts and times of a segment, which decide when its dead text leaves. */
  async *#row(
    segment: string,
    { row, catalog, dead }: ComparedSegment & { row: SegmentRow },
  ): AsyncGenerator<ExaminedFinding> {
    const { sql, repair, nowMs, openedAtMs, deadSecondsMax, filing } = this.#options;
    const expiryMs = livingPlaces({ catalog, dead }, -Infinity).reduce(
      (least, place) => Math.min(least, catalog.expiry(place)),
      Infinity,
    );
    const sinceMs = row.dead_since_ms === null ? Infinity : Number(row.dead_since_ms);
    const isWrong =
      row.entries !== catalog.count ||
      row.dead_entries !== dead.count ||
      (dead.count > 0 && sinceMs === Infinity) ||
      // The column has microseconds; the number is rounded.
      sinceMs > expiryMs + 1;
    if (isWrong) {
      const rightMs = Math.min(sinceMs, expiryMs, dead.count > 0 ? nowMs() : Infinity);
      if (repair)
        await query(
          sql,
          `UPDATE find.segments SET entries = $3, dead_entries = $4,
              dead_since = to_timestamp($5::double precision / 1000)
            WHERE owner = $1 AND segment = $2::bigint AND dead = decode($6, 'hex')`,
          [
            this.#owner,
            segment,
            catalog.count,
            dead.count,
            rightMs === Infinity ? null : rightMs,
            dead.bytes.toString('hex'),
          ],
        );
      yield this.#finding(
        'wrong',
        segment,
        `A segment of the search index counts ${row.entries} entries, ${row.dead_entries} of them dead, ` +
          `and has ${catalog.count} and ${dead.count}.`,
      );
    }
    if (sinceMs === Infinity || nowMs() - Math.max(sinceMs, openedAtMs) <= deadSecondsMax * 1_000) return;
    if (repair) while (await filing.merge(this.#owner)) continue;
    yield this.#finding(
      'wrong',
      segment,
      `A segment of the search index has had text of deleted or expired things for more than ${deadSecondsMax} s (findDeadSecondsMax).`,
      'write the segment again without them',
    );
  }

  async *#records(): AsyncGenerator<readonly EntryName[]> {
    const { sql, messages } = this.#options;
    if (this.#owner === messagesOwner) {
      let page: EntryName[] = [];
      for await (const name of messages.all()) {
        page.push(name);
        if (page.length < namesPerPage) continue;
        yield page;
        page = [];
      }
      yield page;
      return;
    }
    for (const kind of ownedKinds) {
      let after: Parameters<typeof readNames>[4] = null;
      do {
        const page = await readNames(sql, this.#owner, kind, null, after);
        yield page.names;
        ({ after } = page);
      } while (after !== null);
    }
  }

  /** Things that have no entry, or several. */
  async *#missing(names: readonly EntryName[]): AsyncGenerator<ExaminedFinding> {
    if (names.length === 0) return;
    const { sql, nowMs } = this.#options;
    const segments = await this.#segments(sql);
    const suspects = names
      .filter((name) => this.#filed(segments, name, nowMs()).length !== 1)
      .map((name) => ({ name }));
    for (let at = 0; at < suspects.length; at += namesPerPage)
      yield* this.#look(suspects.slice(at, at + namesPerPage));
  }

  async #segments(sql: Queryable): Promise<Segments> {
    const rows = await query<{ segment: string; catalog: Buffer; facts: Buffer; dead: Buffer }>(
      sql,
      'SELECT segment, catalog, facts, dead FROM find.segments WHERE owner = $1',
      [this.#owner],
    );
    return new Map(
      rows
        .filter(({ segment }) => !this.#unreadable.has(segment))
        .map(({ segment, catalog: bytes, facts, dead }) => {
          const catalog = new Catalog(bytes);
          return [
            segment,
            { catalog, facts: new SegmentFacts(facts, catalog.count), dead: new DeadPlaces(dead) },
          ];
        }),
    );
  }

  #filed(segments: Segments, name: EntryName, nowMs: number): EntryState['filed'] {
    return [...segments].flatMap(([segment, { catalog, facts, dead }]) => {
      const place = catalog.placeOf(name);
      return place < 0 || dead.has(place) || catalog.expiry(place) <= nowMs
        ? []
        : [{ segment, facts: catalog.entry(place, facts.at(place)) }];
    });
  }

  /** Looks again, in one snapshot, and marks what is wrong. */
  async *#look(suspects: readonly Suspect[]): AsyncGenerator<ExaminedFinding> {
    if (suspects.length === 0) return;
    const { sql, repair, messages } = this.#options;
    // A posted message is marked a moment after the post.
    if (this.#owner === messagesOwner) await messages.markAll(null);
    const states = await transaction(sql, (tx) => this.#states(tx, suspects));
    const wrong = suspects.flatMap((suspect, index) => {
      const problem = problemOf(states[index] as EntryState, suspect);
      return problem === null ? [] : [{ name: suspect.name, ...problem }];
    });
    if (repair && wrong.length > 0)
      await markNames(
        sql,
        this.#owner,
        wrong.map(({ name }) => name),
      );
    for (const { name, kind, problem } of wrong)
      yield { ...this.#finding(kind, `${name.kind} ${name.collection} ${name.id}`, problem, entryRepair) };
  }

  async #states(tx: Queryable, suspects: readonly Suspect[]): Promise<EntryState[]> {
    const { messages, nowMs } = this.#options;
    await query(tx, 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY');
    const names = suspects.map(({ name }) => name);
    const marked = await query<EntryName>(
      tx,
      // A mark without an id is one of a whole room.
      `SELECT DISTINCT wanted.kind, wanted.collection, wanted.id FROM find.marks m
        JOIN unnest($2::text[], $3::text[], $4::text[]) AS wanted (kind, collection, id)
          ON m.kind = wanted.kind AND m.collection = wanted.collection AND m.id IN (wanted.id, '')
        WHERE m.owner = $1`,
      [
        this.#owner,
        names.map(({ kind }) => kind),
        names.map(({ collection }) => collection),
        names.map(({ id }) => id),
      ],
    );
    const isMarked = new Set(
      marked.map(({ kind, collection, id }) => JSON.stringify({ kind, collection, id })),
    );
    const reindexed = await reindexedNamespaces(tx, this.#owner);
    const segments = await this.#segments(tx);
    const entries = byName(await readEntries(tx, this.#owner, names, messages));
    const now = nowMs();
    return names.map((name) => {
      const entry = entries.get(JSON.stringify(name));
      return {
        name,
        // The settings of the namespace changed: all its documents will be filed again.
        isMarked:
          isMarked.has(JSON.stringify(name)) || (name.kind === 'data' && reindexed.has(name.collection)),
        entry: entry !== undefined && (entry.expiresAtMs ?? Infinity) > now ? entry : undefined,
        filed: this.#filed(segments, name, now),
      };
    });
  }

  /** Marks must be filed in time, because the text of what they replace is still there. */
  async *#oldMarks(): AsyncGenerator<ExaminedFinding> {
    const { sql, repair, deadSecondsMax, openedAtMs, filing } = this.#options;
    const [old] = await query<{ mark: string }>(
      sql,
      `SELECT mark FROM find.marks WHERE owner = $1 AND clock_timestamp()
          - greatest(marked_at, to_timestamp($2::double precision / 1000))
          > $3::double precision * interval '1 second'
        LIMIT 1`,
      [this.#owner, openedAtMs, deadSecondsMax],
    );
    if (old === undefined) return;
    if (repair) while ((await filing.file(this.#owner)).isMore) continue;
    yield {
      ...this.#finding(
        'wrong',
        old.mark,
        `Written things have waited for the search index for more than ${deadSecondsMax} s (findDeadSecondsMax).`,
        'file them',
      ),
      family: 'find.marks',
    };
  }
}

function byName(entries: readonly WaitingEntry[]): Map<string, WaitingEntry> {
  return new Map(entries.map((entry) => [JSON.stringify(entry.name), entry]));
}
