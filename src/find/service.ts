/** The search over documents, tasks and messages: checks what is asked, ranks, filters, and shows excerpts. */
import type { Caller } from '../core/caller.js';
import { checkWanted } from '../core/waiting/cancellation.js';
import { Slices } from '../core/waiting/yielding.js';
import type { Limits } from '../core/settings/limits.js';
import type { JsonValue } from '../datastore/model.js';
import type { DocumentReads } from '../datastore/port.js';
import { decodeWordsPosition, encodeWordsPosition } from './cursor.js';
import { excerptOf } from './excerpt.js';
import { FilteredDocuments } from './filtered-documents.js';
import type { Excerpt, FindKind, RankedEntry } from './model.js';
import type { FindPort, IndexAnswer } from './port.js';
import type { Query } from './query/query.js';
import { type FoundRecord, type RecordPorts, readRecords } from './records.js';
import { type CheckedRequest, type FindRequest, checkRequest } from './requests.js';

export interface FindServiceOptions extends RecordPorts {
  readonly port: FindPort;
  readonly data: DocumentReads;
  readonly limits: Limits;
  readonly nowMs: () => number;
  /** The id of a room that the caller can see. Throws otherwise. */
  readonly findRoom: (caller: Caller, room: string) => Promise<string>;
}

/** One result. A document has `namespace` and `key`, a task `project_id` and `id`, a message `room_id` and `id`. */
export interface FindHit {
  kind: FindKind;
  namespace?: string;
  key?: string;
  project_id?: string;
  room_id?: string;
  /** The name of the room of a message. */
  room?: string;
  id?: string;
  /** From 0 to 1; above 0.5 the result has all words. Null without words. */
  score: number | null;
  excerpt: string;
  /** Ranges of the matched words in the excerpt, in UTF-16 units. */
  marks: [start: number, end: number][];
  author: string | null;
  time: string;
  version: number;
  /** With `values`. */
  value?: JsonValue;
  metadata?: Record<string, JsonValue>;
  created_at?: string;
}

export interface FindPage {
  items: FindHit[];
  next_cursor: string | null;
  /** False: the search stopped at a limit, and there may be results that it did not look at. */
  examined_all: boolean;
}

/** Results that are read together, when a filter leaves some of them out. */
const entriesPerRead = 100;

export class FindService {
  readonly port: FindPort;
  readonly #options: FindServiceOptions;
  readonly #documents: FilteredDocuments;

  constructor(options: FindServiceOptions) {
    this.port = options.port;
    this.#options = options;
    this.#documents = new FilteredDocuments(options.data, options.limits);
  }

  async find(caller: Caller, request: FindRequest): Promise<FindPage> {
    const { limits, findRoom } = this.#options;
    const roomId = request.room === undefined ? null : await findRoom(caller, request.room);
    const checked = checkRequest(caller, request, roomId, limits);
    const { query } = checked;
    if (query === null) return this.#filtered(caller, checked);
    if (checked.sort !== null) return this.#sorted(caller, checked, query);
    return this.#ranked(caller, checked, query);
  }

  async #ranked(caller: Caller, checked: CheckedRequest, query: Query): Promise<FindPage> {
    const { limits } = this.#options;
    const { limit, filter, list } = checked;
    const position = decodeWordsPosition(list, checked.cursor, query.groups.length);
    const asOfMs = position?.asOfMs ?? this.#options.nowMs();
    const items: FindHit[] = [];
    let [statistics, after] = [position?.statistics ?? null, position?.after ?? null];
    let examined = 0;
    const slices = new Slices();
    for (;;) {
      const wanted = filter === null ? limit + 1 - items.length : entriesPerRead;
      const answer = await this.#search(checked, query, { asOfMs, statistics, after, limit: wanted });
      ({ statistics } = answer);
      const { entries } = answer;
      const records = await this.#read(caller, entries.slice(0, filter === null ? limit : undefined));
      for (const [index, record] of records.entries()) {
        const entry = entries[index] as RankedEntry;
        after = entry;
        examined += 1;
        if (record === undefined) continue;
        if (filter !== null && !filter(JSON.parse(record.document?.valueJson ?? 'null'))) continue;
        items.push(this.#hit(entry, record, query, checked.values));
        await slices.pause();
        if (items.length === limit) break;
      }
      const isLast = entries.length < wanted && (after === null || after === entries.at(-1));
      const isFull =
        items.length === limit || (filter !== null && examined >= limits.findDocumentsExaminedMax);
      if (!isLast && !isFull) {
        checkWanted(checked.signal);
        continue;
      }
      const next = isLast || after === null ? null : encodeWordsPosition(list, { asOfMs, statistics, after });
      return {
        items,
        next_cursor: next,
        examined_all: answer.isComplete && (isLast || items.length === limit),
      };
    }
  }

  /** By a member of the value: every match is read, up to `findSortedMax`. */
  async #sorted(caller: Caller, checked: CheckedRequest, query: Query): Promise<FindPage> {
    const { limits } = this.#options;
    const answer = await this.#search(checked, query, {
      asOfMs: this.#options.nowMs(),
      statistics: null,
      after: null,
      limit: limits.findSortedMax,
    });
    const scores = new Map<FoundRecord, RankedEntry>();
    const records: FoundRecord[] = [];
    for (let at = 0; at < answer.entries.length; at += entriesPerRead) {
      const entries = answer.entries.slice(at, at + entriesPerRead);
      for (const [index, record] of (await this.#read(caller, entries)).entries()) {
        if (record === undefined) continue;
        records.push(record);
        scores.set(record, entries[index] as RankedEntry);
      }
      checkWanted(checked.signal);
    }
    const page = await this.#documents.sortedPage(records, checked);
    return {
      items: page.records.map((record) => this.#hit(scores.get(record), record, query, checked.values)),
      next_cursor: page.next,
      examined_all: answer.isComplete && answer.entries.length < limits.findSortedMax,
    };
  }

  /** Without words: documents in the order of their keys, or by a member of the value. */
  async #filtered(caller: Caller, checked: CheckedRequest): Promise<FindPage> {
    const page = await this.#documents.page(caller.user, checked);
    return {
      items: page.records.map((record) => this.#hit(undefined, record, null, checked.values)),
      next_cursor: page.next,
      examined_all: page.isComplete,
    };
  }

  #search(
    { parts, prefix, agent, sinceMs, untilMs, signal }: CheckedRequest,
    query: Query,
    page: Pick<Parameters<FindPort['search']>[0], 'asOfMs' | 'statistics' | 'after' | 'limit'>,
  ): Promise<IndexAnswer> {
    return this.port.search({ query, parts, prefix, author: agent, sinceMs, untilMs, signal, ...page });
  }

  #read({ user }: Caller, entries: readonly RankedEntry[]): Promise<(FoundRecord | undefined)[]> {
    return readRecords(
      this.#options,
      user,
      entries.map(({ name }) => name),
    );
  }

  #hit(
    entry: RankedEntry | undefined,
    { text, document, version, timeMs, author, room }: FoundRecord,
    query: Query | null,
    values: boolean,
  ): FindHit {
    const excerpt: Excerpt = excerptOf(text, query ?? { groups: [], phrases: [], excluded: [] });
    return {
      ...placeOf(entry, document),
      ...(room !== null && { room }),
      score: entry === undefined ? null : Number(entry.score.toFixed(6)),
      excerpt: excerpt.text,
      marks: excerpt.marks.map(([start, end]) => [start, end]),
      author,
      time: new Date(timeMs).toISOString(),
      version,
      ...(values &&
        document !== null && {
          value: JSON.parse(document.valueJson) as JsonValue,
          metadata: document.metadata,
          created_at: document.createdAt,
        }),
    };
  }
}

function placeOf(
  entry: RankedEntry | undefined,
  document: FoundRecord['document'],
): Pick<FindHit, 'kind' | 'namespace' | 'key' | 'project_id' | 'room_id' | 'id'> {
  if (document !== null) return { kind: 'data', namespace: document.namespace, key: document.key };
  const { kind, collection, id } = (entry as RankedEntry).name; // Only documents are found without words.
  return kind === 'tasks' ? { kind, project_id: collection, id } : { kind, room_id: collection, id };
}
