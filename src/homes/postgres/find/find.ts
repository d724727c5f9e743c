/** The search over documents, tasks and messages in PostgreSQL: the port of the find domain. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../../../core/settings/limits.js';
import { checkWanted } from '../../../core/waiting/cancellation.js';
import { Periodic } from '../../../core/waiting/periodic.js';
import type { CurrentDocuments } from '../../../datastore/document-store/current-documents.js';
import type { FindKind } from '../../../find/model.js';
import { type FindPort, type IndexSearch } from '../../../find/port.js';
import { termsOfQuery } from '../../../find/query/query.js';
import { searchView } from '../../../find/ranking/search-view.js';
import { IndexView, type ViewFilter, type ViewedPartition } from '../../../find/segments/view.js';
import { type PostgresSql, query } from '../database/connection.js';
import { takeTurn } from '../database/turns.js';
import type { ExaminedFinding, OnProgress } from '../../../operations/model.js';
import type { PostgresWriter } from '../write/writer.js';
import { begunWords } from './beginnings.js';
import { examineIndex } from './doctor.js';
import { type FiledStep, Filing } from './filing.js';
import { type GatheredOwner, Gathering, marksReadMax } from './gather.js';
import type { SearchedMessages } from './messages.js';
import { Reindexing } from './reindex/reindex.js';
import { messagesOwner } from './schema.js';
import { putStoreEntries, removeExpired } from './store-entries.js';
import { PostgresVectors } from './vectors/vectors.js';

export interface PostgresFindOptions {
  readonly sql: PostgresSql;
  readonly writer: PostgresWriter;
  readonly limits: Limits;
  readonly nowMs: () => number;
  readonly messages: SearchedMessages;
  readonly onError: (error: unknown, about: string) => void;
  readonly intervalMs: number | undefined;
  readonly isOnlyRead: boolean;
}

const intervalDefaultMs = 1_000;
/** Owners that one round of filing looks at. The next round looks at the others. */
const ownersPerRound = 256;
/**
 * A search that finds too many marks files them first, in at most so many steps: about 25,000 documents of 1 KB. Reading
 * all their words for one search takes as long as filing them for all.
 */
const stepsBeforeSearchMax = 64;
/** How long a search files and waits for other servers in all. After that it reads the marks that still wait. */
const filingMsMax = 10_000;
/** How long a search then reads the words of what waits. The answer says if some were not read. */
const readingMsMax = 10_000;
/** How long it waits for another server that files the same marks before it tries again. */
const otherServerMs = 50;

/** Segments may be joined while a search reads their words. */
const attemptsMax = 5;

const filingAbout = 'filing marks into the search index (searches find them too); it is tried again';

export class PostgresFind implements FindPort {
  readonly vectors: PostgresVectors;
  readonly #options: PostgresFindOptions;
  readonly #gathering: Gathering;
  readonly #filing: Filing;
  readonly #rounds: Periodic;
  readonly #reindexing: Reindexing;
  readonly #openedAtMs: number;
  /** By owner: the step of filing that searches wait for. */
  readonly #steps = new Map<string, Promise<FiledStep>>();
  #isOver = false;
  /** Messages are read in Redis, which may answer other servers. */
  #hasFailed = false;
  #current: CurrentDocuments | null = null;

  constructor(options: PostgresFindOptions) {
    const { sql, writer, limits, nowMs, messages, onError, intervalMs = intervalDefaultMs } = options;
    this.#options = options;
    this.vectors = new PostgresVectors({ sql, writer, limits, nowMs });
    this.#gathering = new Gathering({ sql, messages, cacheBytesMax: limits.findCacheBytesMax });
    this.#filing = new Filing({ writer, limits, nowMs, messages });
    this.#openedAtMs = nowMs();
    this.#reindexing = new Reindexing({
      sql,
      filing: this.#filing,
      messages,
      allMessages: () => messages.all(),
      current: () => this.#current,
      putEntries: (documents) => writer.transact((work) => putStoreEntries(work, documents, null)),
      isOver: () => this.#isOver,
      onError: (error) => onError(error, 'filing everything again for the search; it is tried again'),
    });
    this.#rounds = new Periodic({
      everyMs: intervalMs,
      run: () => this.#round(intervalMs),
      onError: (error) => onError(error, filingAbout),
    });
  }

  readonly useStore: FindPort['useStore'] = (current) => {
    this.#current = current;
  };

  start(): void {
    if (!this.#options.isOnlyRead) this.#rounds.start();
  }

  async close(): Promise<void> {
    this.#isOver = true;
    await this.#rounds.close();
    await this.#reindexing.close();
  }

  /** The database was restored. */
  forgetAll(): void {
    this.#gathering.forgetAll();
  }

  readonly search: FindPort['search'] = async (search) => {
    const { limits, messages } = this.#options;
    const { parts } = search;
    const owners = new Set<string>();
    for (const part of [parts.data, parts.tasks]) if (part !== null) owners.add(part.user);
    if (parts.messages !== null) {
      owners.add(messagesOwner);
      await messages.markAll(parts.messages.rooms);
    }
    const rooms = parts.messages === null ? null : await this.#rooms(parts.messages);
    const wanted = termsOfQuery(search.query);
    let readUntilMs = Infinity;
    for (let attempt = 1; ; attempt += 1) {
      const gathered = await this.#gather([...owners], wanted.terms, search);
      const filter: ViewFilter = {
        hasCollection: (kind, collection) =>
          isSearched(parts, rooms, kind, collection) &&
          !(kind === 'data' && gathered.some(({ unindexed }) => unindexed.has(collection))),
        // A later page must not show what expired since the first one.
        nowMs: Math.max(search.asOfMs, this.#options.nowMs()),
      };
      const partitions: ViewedPartition[] = [];
      // From the end of the first filing.
      readUntilMs = Math.min(readUntilMs, performance.now() + readingMsMax);
      let isComplete = gathered.every(
        ({ marksRead, refiled }) =>
          marksRead <= marksReadMax &&
          ![...refiled].some((namespace) => filter.hasCollection('data', namespace)),
      );
      for (const owner of gathered) {
        const begun = await begunWords(this.#options.sql, owner, wanted.beginnings, filter);
        if (begun === null && attempt < attemptsMax) break;
        const partition = await this.#gathering.partitionOf(owner, wanted, readUntilMs);
        partitions.push(begun === null ? partition : { ...partition, begun: begun.words });
        isComplete &&= partition.isComplete && (begun?.isComplete ?? false);
      }
      if (partitions.length < gathered.length) continue;
      const answer = await searchView(new IndexView(partitions, filter), search, limits);
      return { ...answer, isComplete: answer.isComplete && isComplete };
    }
  };

  /** Files everything that is marked now, so that a test or a bench can measure the filed index. */
  async fileAll(): Promise<void> {
    for (;;) {
      const owners = await this.#markedOwners(1);
      if (owners.length === 0) return;
      for (const owner of owners) await this.#fileOwner(owner);
    }
  }

  readonly reindex: FindPort['reindex'] = (scope, onProgress) => this.#reindexing.run(scope, onProgress);

  /** Compares the index with the records. With `repair`, what differs is marked to be filed again. */
  examine(repair: boolean, onProgress?: OnProgress): AsyncGenerator<ExaminedFinding> {
    const { sql, messages, nowMs, limits } = this.#options;
    return examineIndex({
      sql,
      messages,
      filing: this.#filing,
      nowMs,
      deadSecondsMax: limits.findDeadSecondsMax,
      openedAtMs: this.#openedAtMs,
      repair,
      onProgress,
    });
  }

  readonly size: FindPort['size'] = async () => {
    const [row] = await query<{ waiting: string; segments: string; bytes: string }>(
      this.#options.sql,
      `SELECT (SELECT count(*) FROM find.marks) AS waiting, (SELECT count(*) FROM find.segments) AS segments,
        (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE c.relkind = 'r' AND n.nspname = 'find') AS bytes`,
    );
    return {
      waiting: Number(row?.waiting ?? 0),
      segments: Number(row?.segments ?? 0),
      bytes: Number(row?.bytes ?? 0),
    };
  };

  /** The search finds waiting things too, but it reads each of them. Many are filed first, once for all searches. */
  async #gather(
    owners: readonly string[],
    terms: readonly string[],
    search: IndexSearch,
  ): Promise<GatheredOwner[]> {
    const { findWaitingMax } = this.#options.limits;
    const gathered = await this.#gathering.read(owners, terms, findWaitingMax + 1);
    const crowded = gathered.filter(({ marksRead }) => marksRead > findWaitingMax);
    if (crowded.length === 0) return gathered;
    if (!this.#options.isOnlyRead) for (const { owner } of crowded) await this.#fileCrowd(owner, search);
    return this.#gathering.read(owners, terms, marksReadMax + 1);
  }

  async #fileCrowd(owner: string, { signal }: IndexSearch): Promise<void> {
    const untilMs = performance.now() + filingMsMax;
    for (let steps = 0; steps < stepsBeforeSearchMax && performance.now() < untilMs;) {
      checkWanted(signal);
      const { isMore, other } = await this.#fileTogether(owner);
      // Joining segments can take long, and files no mark.
      if (other !== 'filing' && !isMore) return;
      if (other === 'filing') await sleep(otherServerMs);
      else steps += 1;
    }
  }

  /** Searches that come at the same time share a step, also with the filing in the background. */
  #fileTogether(owner: string): Promise<FiledStep> {
    let step = this.#steps.get(owner);
    if (step === undefined) {
      step = this.#filing.file(owner).finally(() => this.#steps.delete(owner));
      this.#steps.set(owner, step);
    }
    return step;
  }

  async #rooms({
    owner,
    rooms,
  }: NonNullable<IndexSearch['parts']['messages']>): Promise<ReadonlySet<string>> {
    const readable = await this.#options.messages.readableRooms(owner);
    // A named room can be seen, but its messages may need a key.
    return rooms === null ? readable : new Set(rooms.filter((room) => readable.has(room)));
  }

  async #round(intervalMs: number): Promise<void> {
    if (!(await takeTurn(this.#options.sql, 'find', intervalMs, this.#hasFailed))) return;
    this.#hasFailed = false;
    const { findWaitingMax, findDeadSecondsMax } = this.#options.limits;
    await removeExpired(this.#options.sql, this.#options.nowMs());
    // Few marks of an owner may wait for more, so that segments are not tiny.
    for (const owner of await this.#markedOwners(Math.max(1, findWaitingMax >> 2))) {
      if (this.#isOver) return;
      await this.#attempt(() => this.#fileOwner(owner));
    }
    const rotten = await query<{ owner: string }>(
      this.#options.sql,
      `SELECT DISTINCT owner FROM find.segments
        WHERE dead_since <= to_timestamp($1::double precision / 1000) LIMIT $2`,
      [this.#options.nowMs() - (findDeadSecondsMax * 1_000) / 2, ownersPerRound],
    );
    for (const { owner } of rotten) if (!this.#isOver) await this.#attempt(() => this.#filing.merge(owner));
    this.#reindexing.continueAbandoned();
  }

  /** An owner whose marks cannot be filed is reported, and does not keep the others waiting. */
  async #attempt(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#hasFailed = true;
      if (!this.#isOver) this.#options.onError(error, filingAbout);
    }
  }

  async #fileOwner(owner: string): Promise<void> {
    while (!this.#isOver && (await this.#fileTogether(owner)).isMore);
    while (!this.#isOver && (await this.#filing.merge(owner)));
  }

  /** Owners with so many marks, or with one that has waited for a quarter of the allowed time. */
  async #markedOwners(marksMin: number): Promise<string[]> {
    const { findDeadSecondsMax } = this.#options.limits;
    const rows = await query<{ owner: string }>(
      this.#options.sql,
      `SELECT owner FROM find.marks GROUP BY owner
        HAVING count(*) >= $1 OR min(marked_at) < clock_timestamp() - $2::double precision * interval '1 second'
        ORDER BY count(*) DESC LIMIT $3`,
      [marksMin, findDeadSecondsMax / 4, ownersPerRound],
    );
    return rows.map(({ owner }) => owner);
  }
}

function isSearched(
  { data, tasks, messages }: IndexSearch['parts'],
  rooms: ReadonlySet<string> | null,
  kind: FindKind,
  collection: string,
): boolean {
  if (kind === 'data') return data !== null && (data.namespaces?.includes(collection) ?? true);
  if (kind === 'tasks') return tasks !== null && (tasks.project ?? collection) === collection;
  return messages !== null && rooms?.has(collection) === true;
}
