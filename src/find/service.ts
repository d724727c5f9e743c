/** The search over documents, tasks and messages: checks what is asked, ranks, filters, and shows excerpts. */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import { checkWanted } from '../core/waiting/cancellation.js';
import { Slices } from '../core/waiting/yielding.js';
import type { Limits } from '../core/settings/limits.js';
import { writableScope } from '../datastore/access.js';
import type { JsonValue } from '../datastore/model.js';
import type { NamespaceSettingsPort } from '../datastore/namespace-settings.js';
import type { DocumentReads } from '../datastore/port.js';
import { decodeWordsPosition, encodeWordsPosition } from './cursor.js';
import { excerptOf } from './excerpt.js';
import { FilteredDocuments } from './filtered-documents.js';
import type { Excerpt, FindKind, RankedEntry } from './model.js';
import type { FindPort, OnReindexed, ReindexReport } from './port.js';
import type { Query } from './query/query.js';
import { type FoundRecord, type RecordPorts, readRecords } from './records.js';
import { type CheckedRequest, type FindRequest, type FoundAgent, checkRequest } from './requests.js';
import type { Embedding } from './vectors/embedding.js';
import { type ReadPage, noEmbedder, vectorPages } from './vectors/search.js';

export interface FindServiceOptions extends RecordPorts {
  readonly port: FindPort;
  /** Null: this server searches by words only. */
  readonly embedding: Embedding | null;
  readonly namespaceSettings: NamespaceSettingsPort;
  readonly data: DocumentReads;
  readonly limits: Limits;
  readonly nowMs: () => number;
  /** The id of a room that the caller can see. Throws otherwise. */
  readonly findRoom: (caller: Caller, room: string) => Promise<string>;
  /** The name of an agent that is given by name or id, and its messaging identities. */
  readonly findAgent: (caller: Caller, agent: string) => Promise<FoundAgent>;
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
    const { limits, findRoom, findAgent } = this.#options;
    const roomId = request.room === undefined ? null : await findRoom(caller, request.room);
    const agent = request.agent === undefined ? null : await findAgent(caller, request.agent);
    const checked = checkRequest(caller, request, roomId, agent, limits);
    const { query } = checked;
    if (checked.mode !== 'text') await this.#requireVectors(caller, request);
    if (query === null) return this.#filtered(caller, checked);
    if (checked.sort !== null) return this.#sorted(caller, checked, query);
    return this.#ranked(caller, checked, query);
  }

  /** An empty answer would look as if nothing were similar. */
  async #requireVectors({ user }: Caller, { mode, namespace }: FindRequest): Promise<void> {
    const { embedding, namespaceSettings } = this.#options;
    if (embedding === null) throw noEmbedder();
    if (namespace === undefined || (await namespaceSettings.read({ user, namespace })).embed) return;
    throw new StoaError('invalid_request', `The documents of the namespace "${namespace}" have no vectors.`, {
      fix: `Set embed with "stoa data configure ${namespace} --embed", or search without mode=${mode ?? 'text'}.`,
    });
  }

  /** Files the caller's things again; for the operator without a user, everything. */
  async reindex(
    caller: Caller,
    namespace: string | undefined,
    onProgress: OnReindexed,
  ): Promise<ReindexReport> {
    if (caller.everyUser && namespace === undefined)
      return this.port.reindex({ user: null, namespace: null }, onProgress);
    if (namespace === undefined && caller.scopes.namespaces !== null)
      throw new StoaError('forbidden', 'These credentials cannot access all namespaces.', {
        fix: 'Name one of their namespaces.',
        details: { namespaces: caller.scopes.namespaces },
      });
    const scope =
      namespace === undefined
        ? { user: caller.user, namespace: null }
        : writableScope(caller, namespace, this.#options.limits);
    return this.port.reindex(scope, onProgress);
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
    const readPage = this.#pages(checked, query);
    for (;;) {
      const wanted = filter === null ? limit + 1 - items.length : entriesPerRead;
      const answer = await readPage({ asOfMs, statistics, after, limit: wanted });
      ({ statistics } = answer);
      const { entries } = answer;
      const records = await this.#read(caller, entries.slice(0, filter === null ? limit : undefined));
      for (const [index, record] of records.entries()) {
        const entry = entries[index] as RankedEntry;
        after = entry;
        examined += 1;
        if (record === undefined || isHidden(record)) continue;
        if (filter !== null && !filter(JSON.parse(record.document?.valueJson ?? 'null'))) continue;
        items.push(this.#hit(entry, record, query, checked.values));
        await slices.pause();
        if (items.length === limit) break;
      }
      const isLast = entries.length < wanted && (entries.length === 0 || after === entries.at(-1));
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
    const answer = await this.#pages(
      checked,
      query,
    )({
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
        if (record === undefined || isHidden(record)) continue;
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

  #pages(checked: CheckedRequest, query: Query): ReadPage {
    const { parts, prefix, authors, sinceMs, untilMs, signal } = checked;
    const words: ReadPage = (page) =>
      this.port.search({ query, parts, prefix, authors, sinceMs, untilMs, signal, ...page });
    return checked.mode === 'text' ? words : vectorPages(this.#options, checked, query, words);
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

/** A document that was just taken out of the search may still have a vector. */
function isHidden({ document }: FoundRecord): boolean {
  return document?.indexed === false;
}

function placeOf(
  entry: RankedEntry | undefined,
  document: FoundRecord['document'],
): Pick<FindHit, 'kind' | 'namespace' | 'key' | 'project_id' | 'room_id' | 'id'> {
  if (document !== null) return { kind: 'data', namespace: document.namespace, key: document.key };
  const { kind, collection, id } = (entry as RankedEntry).name; // Only documents are found without words.
  return kind === 'tasks' ? { kind, project_id: collection, id } : { kind, room_id: collection, id };
}
