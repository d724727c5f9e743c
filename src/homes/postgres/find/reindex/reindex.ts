/**
 * Files everything again, in steps, while servers work. The names of all records are marked and filed; then
 * entries without a record are marked. A marked thing is found by its record, so searches miss nothing. How
 * far it came is in a table: a second call on any server follows it, and another server continues it if the
 * first one dies.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Periodic } from '../../../../core/waiting/periodic.js';
import type {
  CurrentDocument,
  CurrentDocuments,
} from '../../../../datastore/document-store/current-documents.js';
import { JoinedWork } from '../../../../find/joined-work.js';
import type { EntryName } from '../../../../find/model.js';
import type { OnReindexed, ReindexReport, ReindexScope } from '../../../../find/port.js';
import { Catalog } from '../../../../find/segments/catalog.js';
import { DeadPlaces } from '../../../../find/segments/segment.js';
import { type PostgresSql, type Queryable, query } from '../../database/connection.js';
import { examinedSegment } from '../examined-segments.js';
import type { Filing } from '../filing.js';
import type { MessageReader } from '../messages.js';
import { type NamesPosition, type OwnedKind, nextOwner, ownedKinds, readNames } from '../names.js';
import { readEntries } from '../records.js';
import { type Job, JobLost, type Position, ReindexJobs, keyOf, reportMs } from './jobs.js';
import { messagesOwner } from '../schema.js';

export interface ReindexSource {
  readonly sql: PostgresSql;
  readonly filing: Filing;
  readonly messages: MessageReader;
  /** The places of all messages. */
  allMessages(): AsyncIterable<EntryName>;
  /** The documents of a store beside PostgreSQL; null if PostgreSQL has the documents. */
  readonly current: () => CurrentDocuments | null;
  readonly putEntries: (documents: readonly CurrentDocument[]) => Promise<void>;
  isOver(): boolean;
  /** Faults of jobs that no caller waits for. */
  onError(error: unknown): void;
}

/** Places that are marked in one statement. */
const placesPerStep = 512;
const followMs = 500;

export class Reindexing {
  readonly #source: ReindexSource;
  readonly #jobs: ReindexJobs;
  readonly #running = new JoinedWork<ReindexReport>();
  #continuing: Promise<void> | undefined;

  constructor(source: ReindexSource) {
    this.#source = source;
    this.#jobs = new ReindexJobs(source.sql);
  }

  run(scope: ReindexScope, onProgress: OnReindexed): Promise<ReindexReport> {
    return this.#running.run(JSON.stringify(keyOf(scope)), onProgress, (onStep) => this.#run(scope, onStep));
  }

  async #run(scope: ReindexScope, onProgress: OnReindexed): Promise<ReindexReport> {
    let last: Job | undefined;
    await this.#jobs.offer(scope);
    for (;;) {
      this.#checkOpen();
      const own = await this.#jobs.take(scope);
      const job = own ?? (await this.#jobs.read(scope));
      // Done, here or on another server.
      if (job === undefined) return { filed: last?.done ?? 0, removed: last?.removed ?? 0 };
      last = job;
      onProgress({ done: job.done, total: Math.max(job.total, job.done) });
      if (own !== undefined)
        try {
          return await this.#reporting(scope, () => this.#work(scope, own, onProgress));
        } catch (error) {
          if (error instanceof JobLost) continue;
          throw error;
        }
      await sleep(followMs);
    }
  }

  /**
   * Begins jobs that follow from changed settings, and continues those of servers that died. One after
   * another, and nobody waits for them: they may take long.
   */
  continueAbandoned(): void {
    this.#continuing ??= this.#continueAll().finally(() => (this.#continuing = undefined));
  }

  async close(): Promise<void> {
    await this.#continuing;
    await this.#running.ended();
  }

  async #continueAll(): Promise<void> {
    try {
      for (const scope of await this.#jobs.abandoned())
        if (!this.#source.isOver()) await this.run(scope, () => undefined);
    } catch (error) {
      if (!this.#source.isOver()) this.#source.onError(error);
    }
  }

  /** The job stays with this server for as long as the work takes. */
  async #reporting<Result>(scope: ReindexScope, work: () => Promise<Result>): Promise<Result> {
    const reports = new Periodic({
      everyMs: reportMs,
      run: () => this.#jobs.report(scope),
      onError: (error) => this.#source.onError(error),
    });
    reports.start();
    try {
      return await work();
    } finally {
      await reports.close();
    }
  }

  async #work(scope: ReindexScope, begun: Job, onProgress: OnReindexed): Promise<ReindexReport> {
    const { sql } = this.#source;
    let job = begun;
    const step = async (names: readonly EntryName[], owner: string, next: Position): Promise<void> => {
      if (names.length > 0) await this.#fileAgain(owner, names);
      job = { ...job, done: job.done + names.length, position: next };
      await this.#note(scope, job);
      onProgress({ done: job.done, total: Math.max(job.total, job.done) });
    };
    while (job.position.kind === 'store') {
      job = await this.#enterPage(scope, job, job.position.after);
      await this.#note(scope, job);
      onProgress(job);
    }
    const only = scope.user;
    for (
      let owner =
        job.position.kind === 'messages' ? undefined : (only ?? (await this.#ownerFrom(job.position.owner)));
      owner !== undefined;
      owner = only === null ? await nextOwner(sql, owner) : undefined
    ) {
      await this.#dropUnreadable(owner);
      const isResumed = owner === job.position.owner;
      const first = isResumed ? ownedKinds.indexOf(job.position.kind as OwnedKind) : 0; // Not messages: see above.
      for (const kind of ownedKinds.slice(first)) {
        // A position in the store was left behind above.
        let after = isResumed && kind === job.position.kind ? (job.position.after as NamesPosition) : null;
        do {
          const page = await readNames(sql, owner, kind, scope.namespace, after);
          if (kind === 'entries') await this.#compareEntries(owner, page.names);
          await step(page.names, owner, { owner, kind, after: page.after });
          ({ after } = page);
        } while (after !== null);
      }
      job = { ...job, removed: job.removed + (await this.#removeEntries(owner, scope.namespace)) };
    }
    if (only === null) {
      await this.#dropUnreadable(messagesOwner);
      const at: Position = { owner: messagesOwner, kind: 'messages', after: null };
      for await (const names of steps(this.#source.allMessages())) await step(names, messagesOwner, at);
      job = { ...job, removed: job.removed + (await this.#removeEntries(messagesOwner, null)) };
    }
    await this.#jobs.remove(scope);
    return { filed: job.done, removed: job.removed };
  }

  /** Enters the words of the next documents of the store: other programs write there too. */
  async #enterPage(scope: ReindexScope, job: Job, after: string | null): Promise<Job> {
    const { owner } = job.position;
    const first: Position = { owner, kind: 'data', after: null };
    const current = this.#source.current();
    if (current === null) return { ...job, position: first };
    const page = await current.page(scope, after);
    await current.pass(page.names, (documents) => this.#source.putEntries(documents));
    return {
      ...job,
      total: job.total + page.names.length,
      done: job.done + page.names.length,
      position: page.after === null ? first : { owner, kind: 'store', after: page.after },
    };
  }

  /** Documents that the store no longer has get no words. */
  async #compareEntries(user: string, names: readonly EntryName[]): Promise<void> {
    const known = names.map(({ collection: namespace, id: key }) => ({ user, namespace, key }));
    const { putEntries, current } = this.#source;
    const documents = current();
    if (documents === null) await putEntries(known.map((name) => ({ ...name, record: undefined })));
    else await documents.pass(known, putEntries);
  }

  /** The owner itself, if it is still there. */
  async #ownerFrom(owner: string): Promise<string | undefined> {
    return owner === '' ? nextOwner(this.#source.sql, '') : owner;
  }

  async #note(scope: ReindexScope, job: Job): Promise<void> {
    this.#checkOpen();
    await this.#jobs.note(scope, job);
  }

  #checkOpen(): void {
    if (this.#source.isOver()) throw new Error('The server is stopping; another one continues.');
  }

  async #fileAgain(owner: string, names: readonly EntryName[]): Promise<void> {
    const { sql, filing } = this.#source;
    await markNames(sql, owner, names);
    // If another server files the same owner, it files these marks with the others.
    while ((await filing.file(owner)).isMore) this.#checkOpen();
    while (await filing.merge(owner)) this.#checkOpen();
  }

  /** Searches fail on a segment that cannot be read, and so would filing. Its things are marked after it. */
  async #dropUnreadable(owner: string): Promise<void> {
    const { sql } = this.#source;
    for (const { segment } of await segmentsOf(sql, owner))
      try {
        await examinedSegment(sql, owner, segment);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        await query(sql, 'DELETE FROM find.segments WHERE owner = $1 AND segment = $2::bigint', [
          owner,
          segment,
        ]);
        await query(sql, 'DELETE FROM find.blocks WHERE owner = $1 AND segment = $2::bigint', [
          owner,
          segment,
        ]);
      }
  }

  /** Marks entries whose record does not exist, until every segment was read. */
  async #removeEntries(owner: string, namespace: string | null): Promise<number> {
    const { sql, messages } = this.#source;
    const seen = new Set<string>();
    let removed = 0;
    for (;;) {
      this.#checkOpen();
      const next = (await segmentsOf(sql, owner)).find(({ segment }) => !seen.has(segment));
      if (next === undefined) return removed;
      seen.add(next.segment);
      const [row] = await query<{ catalog: Buffer; dead: Buffer }>(
        sql,
        'SELECT catalog, dead FROM find.segments WHERE owner = $1 AND segment = $2::bigint',
        [owner, next.segment],
      );
      // Joined with others in the meantime.
      if (row === undefined) continue;
      const catalog = new Catalog(row.catalog);
      const dead = new DeadPlaces(row.dead);
      const living = Array.from({ length: catalog.count }, (_, place) => place)
        .filter((place) => !dead.has(place))
        .map((place) => catalog.name(place))
        .filter(
          ({ kind, collection }) => namespace === null || (kind === 'data' && collection === namespace),
        );
      for (let at = 0; at < living.length; at += placesPerStep) {
        const names = living.slice(at, at + placesPerStep);
        const found = new Set(
          (await readEntries(sql, owner, names, messages)).map(({ name }) => JSON.stringify(name)),
        );
        const gone = names.filter((name) => !found.has(JSON.stringify(name)));
        removed += gone.length;
        if (gone.length > 0) await this.#fileAgain(owner, gone);
      }
    }
  }
}

function segmentsOf(sql: PostgresSql, owner: string): Promise<readonly { segment: string }[]> {
  return query(sql, 'SELECT segment FROM find.segments WHERE owner = $1 ORDER BY segment', [owner]);
}

export async function markNames(sql: Queryable, owner: string, names: readonly EntryName[]): Promise<void> {
  await query(
    sql,
    `INSERT INTO find.marks (owner, kind, collection, id)
      SELECT $1, kind, collection, id FROM unnest($2::text[], $3::text[], $4::text[]) AS given (kind, collection, id)`,
    [
      owner,
      names.map(({ kind }) => kind),
      names.map(({ collection }) => collection),
      names.map(({ id }) => id),
    ],
  );
}

async function* steps(names: AsyncIterable<EntryName>): AsyncGenerator<EntryName[]> {
  let step: EntryName[] = [];
  for await (const name of names) {
    step.push(name);
    if (step.length < placesPerStep) continue;
    yield step;
    step = [];
  }
  if (step.length > 0) yield step;
}
