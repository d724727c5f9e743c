/**
 * Files marked places into segments, and joins segments. One server at a time does this for an owner. Writers
 * and searches never wait for it: a place that is written meanwhile has a new mark.
 */
import type { Limits } from '../../../core/settings/limits.js';
import type { EntryName } from '../../../find/model.js';
import { Catalog } from '../../../find/segments/catalog.js';
import { PlacedChanges } from '../../../find/segments/changes.js';
import { SegmentFacts } from '../../../find/segments/facts.js';
import { mergedBlocks, mergedCatalog } from '../../../find/segments/merge.js';
import {
  DeadPlaces,
  type WaitingEntry,
  fileEntries,
  packedBytesMax,
} from '../../../find/segments/segment.js';
import { nextMerge } from '../../../find/segments/tiers.js';
import { Slices, inSlices } from '../../../core/waiting/yielding.js';
import { lockKeySql, tryLockKeySql, tryShareLockKeySql } from '../database/advisory-locks.js';
import type { Work } from '../write/work.js';
import type { PostgresWriter } from '../write/writer.js';
import { type MarkedRow, type PlaceMark, marksByPlace, nameKey } from './marks.js';
import type { MessageReader } from './messages.js';
import { isRoomMark, markMessagesOf } from './room-marks.js';
import { readEntries } from './records.js';
import {
  BlockRows,
  type SegmentRow,
  blocksOf,
  deleteSegments,
  insertSegment,
  segmentColumns,
} from './segment-rows.js';

export interface FilingOptions {
  readonly writer: PostgresWriter;
  readonly limits: Limits;
  readonly nowMs: () => number;
  readonly messages: MessageReader;
}

/** Marks that one transaction files, at most. */
const marksPerStep = 2_048;
/** Records that are read together. Each has up to 64 KiB of text. */
const recordsPerRead = 128;

/** What one step did. */
export interface FiledStep {
  readonly filed: number;
  /** More marks may wait, and the next step may file them. */
  readonly isMore: boolean;
  /** What kept the step from filing: another server files the same marks, or segments are being joined. */
  readonly other: 'filing' | 'merging' | null;
}

interface MarkRow extends MarkedRow {
  readonly mark: string;
}

/** A segment in memory. */
interface OpenSegment {
  readonly row: SegmentRow;
  readonly catalog: Catalog;
  readonly facts: SegmentFacts;
  readonly dead: DeadPlaces;
}

export class Filing {
  readonly #options: FilingOptions;

  constructor(options: FilingOptions) {
    this.#options = options;
  }

  /** Files the oldest marks of an owner. */
  file(owner: string): Promise<FiledStep> {
    return this.#options.writer.transact(async (work) => {
      if (!(await isAlone(work, owner)))
        return { filed: 0, isMore: false, other: await otherWork(work, owner) };
      const marks = await work.rows<MarkRow>(
        'SELECT mark, kind, collection, id, version, author, time_ms FROM find.marks WHERE owner = $1 ORDER BY mark LIMIT $2',
        [owner, marksPerStep],
      );
      if (marks.length === 0) return { filed: 0, isMore: false, other: null };
      const ofRooms = marks.filter(isRoomMark);
      if (ofRooms.length > 0) {
        await markMessagesOf(work, new Set(ofRooms.map(({ collection }) => collection)));
        await deleteMarks(work, owner, ofRooms);
        return { filed: ofRooms.length, isMore: true, other: null };
      }
      // Read after the marks: a write that is not seen here has a mark that is not deleted here.
      const segments = await openSegments(work, owner);
      const { placed, rewritten } = await fileChanges(work, owner, marksByPlace(marks), segments);
      const { names, entries } = await this.#read(work, owner, rewritten);
      const isFiled = new Set([...placed, ...names].map(nameKey));
      const filed = marks.filter((mark) => isFiled.has(nameKey(mark)));
      await this.#bury(work, owner, segments, names);
      const alive = entries.filter(({ expiresAtMs }) => (expiresAtMs ?? Infinity) > this.#options.nowMs());
      if (alive.length > 0) await insertEntries(work, owner, alive);
      await deleteMarks(work, owner, filed);
      const isMore = filed.length < marks.length || marks.length === marksPerStep;
      return { filed: filed.length, isMore, other: null };
    });
  }

  /** The first of the names, with their entries: as many as one segment takes. */
  async #read(
    work: Work,
    owner: string,
    all: readonly EntryName[],
  ): Promise<{ names: readonly EntryName[]; entries: readonly WaitingEntry[] }> {
    const entries: WaitingEntry[] = [];
    let [read, bytes] = [0, 0];
    while (read < all.length && bytes < packedBytesMax) {
      const part = all.slice(read, read + recordsPerRead);
      for (const entry of await readEntries(work.sql, owner, part, this.#options.messages)) {
        entries.push(entry);
        bytes += entry.packed.length;
      }
      read += part.length;
    }
    return { names: all.slice(0, read), entries };
  }

  /** Joins segments of an owner, if it is time for it. Returns true if there may be more to do. */
  merge(owner: string): Promise<boolean> {
    const { limits, nowMs, writer } = this.#options;
    return writer.transact(async (work) => {
      if (!(await isAlone(work, owner))) return false;
      const states = await work.rows<Omit<SegmentRow, 'catalog' | 'facts' | 'dead'>>(
        `SELECT segment, entries, dead_entries, (extract(epoch FROM dead_since) * 1000)::bigint AS dead_since_ms
          FROM find.segments WHERE owner = $1 ORDER BY segment`,
        [owner],
      );
      const now = nowMs();
      const chosen = nextMerge(
        states.map(({ segment, entries, dead_entries, dead_since_ms }) => ({
          segment,
          entries,
          dead: dead_entries,
          deadSinceMs: dead_since_ms === null || Number(dead_since_ms) > now ? null : Number(dead_since_ms),
        })),
        now,
        (limits.findDeadSecondsMax * 1_000) / 2,
      );
      if (chosen === null) return false;
      await work.rows(lockKeySql('findMerge'), [owner]);
      await this.#join(
        work,
        owner,
        chosen.map(({ segment }) => segment),
      );
      return true;
    });
  }

  async #join(work: Work, owner: string, segments: readonly string[]): Promise<void> {
    const rows = await work.rows<SegmentRow>(
      `SELECT ${segmentColumns} FROM find.segments WHERE owner = $1 AND segment = ANY($2::bigint[])
        ORDER BY segment`,
      [owner, segments],
    );
    const inputs = rows.map(openSegment).map((segment) => ({
      ...segment,
      blocks: blocksOf(work.sql, owner, segment.row.segment),
    }));
    const merged = await mergedCatalog(inputs, this.#options.nowMs());
    if (merged.entries > 0) {
      const number = await insertSegment(work, owner, merged, earliestExpiry(new Catalog(merged.catalog)));
      const writing = new BlockRows(work, owner, number);
      for await (const blocks of mergedBlocks(inputs, merged)) await writing.add(blocks);
      await writing.send();
    }
    await deleteSegments(work, owner, segments);
  }

  /** The entries of these places in older segments are dead from now on. */
  async #bury(
    work: Work,
    owner: string,
    segments: readonly OpenSegment[],
    names: readonly EntryName[],
  ): Promise<void> {
    for (const { row, catalog, dead } of segments) {
      const places = names
        .map((name) => catalog.placeOf(name))
        .filter((place) => place >= 0 && !dead.has(place));
      if (places.length === 0) continue;
      const buried = dead.with(places);
      await work.rows(
        `UPDATE find.segments SET dead = decode($3, 'hex'), dead_entries = $4,
            dead_since = least(dead_since, to_timestamp($5::double precision / 1000))
          WHERE owner = $1 AND segment = $2::bigint`,
        [owner, row.segment, buried.bytes.toString('hex'), buried.count, this.#options.nowMs()],
      );
    }
  }
}

async function isAlone(work: Work, owner: string): Promise<boolean> {
  const [lock] = await work.rows<{ taken: boolean }>(tryLockKeySql('findOwner'), [owner]);
  return lock?.taken === true;
}

async function otherWork(work: Work, owner: string): Promise<'filing' | 'merging'> {
  const [lock] = await work.rows<{ taken: boolean }>(tryShareLockKeySql('findMerge'), [owner]);
  return lock?.taken === true ? 'filing' : 'merging';
}

async function deleteMarks(work: Work, owner: string, marks: readonly MarkRow[]): Promise<void> {
  await work.rows('DELETE FROM find.marks WHERE owner = $1 AND mark = ANY($2::bigint[])', [
    owner,
    marks.map(({ mark }) => mark),
  ]);
}

async function insertEntries(work: Work, owner: string, entries: readonly WaitingEntry[]): Promise<void> {
  const filed = await inSlices(fileEntries(entries));
  const earliest = Math.min(...entries.map(({ expiresAtMs }) => expiresAtMs ?? Infinity));
  const writing = new BlockRows(work, owner, await insertSegment(work, owner, filed, earliest));
  await writing.add(filed.blocks);
  await writing.send();
}

function earliestExpiry({ expiries }: Catalog): number {
  return (expiries ?? new Float64Array(0)).reduce((least, expiry) => Math.min(least, expiry), Infinity);
}

async function openSegments(work: Work, owner: string): Promise<OpenSegment[]> {
  const rows = await work.rows<SegmentRow>(`SELECT ${segmentColumns} FROM find.segments WHERE owner = $1`, [
    owner,
  ]);
  return rows.map(openSegment);
}

function openSegment(row: SegmentRow): OpenSegment {
  const catalog = new Catalog(row.catalog);
  return { row, catalog, facts: new SegmentFacts(row.facts, catalog.count), dead: new DeadPlaces(row.dead) };
}

/** Writes the facts of things that keep their words. The other things are to be read. */
async function fileChanges(
  work: Work,
  owner: string,
  marks: readonly PlaceMark[],
  segments: readonly OpenSegment[],
): Promise<{ placed: readonly EntryName[]; rewritten: readonly EntryName[] }> {
  const placing = new PlacedChanges(segments);
  const slices = new Slices();
  const placed: EntryName[] = [];
  const rewritten: EntryName[] = [];
  for (const { name, change } of marks) {
    const isPlaced = change !== null && placing.add(change);
    (isPlaced ? placed : rewritten).push(name);
    await slices.pause();
  }
  for (const [index, { row, facts }] of segments.entries()) {
    const changes = placing.bySegment[index];
    if (changes === undefined || changes.size === 0) continue;
    await work.rows(
      `UPDATE find.segments SET facts = decode($3, 'base64'), revision = revision + 1
        WHERE owner = $1 AND segment = $2::bigint`,
      [owner, row.segment, facts.with(changes).bytes.toString('base64')],
    );
  }
  return { placed, rewritten };
}
