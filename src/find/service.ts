/** The search over documents, tasks and messages: checks what is asked, ranks, filters, and shows excerpts. */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import { checkWanted } from '../core/waiting/cancellation.js';
import { Places } from '../core/waiting/places.js';
import { Slices } from '../core/waiting/yielding.js';
import type { Limits } from '../core/settings/limits.js';
import { writableScope } from '../datastore/access.js';
import type { NamespaceSettingsPort } from '../datastore/namespaces/namespace-settings.js';
import type { DocumentReads } from '../datastore/port.js';
import type { FindPage } from './answers.js';
import { decodeWordsPosition, encodeWordsPosition } from './cursor.js';
import { HitPage, hitOf } from './hits.js';
import { FilteredDocuments, type SortedDocuments } from './filtered-documents.js';
import type { FindPort, OnReindexed, ReindexReport } from './port.js';
import type { Query } from './query/query.js';
import { type FoundRecord, type RecordPorts, RecordSteps } from './records.js';
import {
  type CheckedRequest,
  type FindRequest,
  type FoundAgent,
  type Sort,
  checkRequest,
} from './requests.js';
import { type SortedDocument, sortedAfter, sortedCursor, toSort } from './sorted-documents.js';
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
  /** The id of a project that is given by id or name. Throws for an unknown name. */
  readonly findProject: (caller: Caller, project: string) => Promise<string>;
  /** The id of a room that the caller can see. Throws otherwise. */
  readonly findRoom: (caller: Caller, room: string) => Promise<string>;
  /** The name of an agent that is given by name or id, and its messaging identities. */
  readonly findAgent: (caller: Caller, agent: string) => Promise<FoundAgent>;
}

/** Results that are read together, when a filter leaves some of them out. */
const entriesPerRead = 100;

export class FindService {
  readonly port: FindPort;
  readonly #options: FindServiceOptions;
  readonly #documents: FilteredDocuments;
  /** Searches that run. Those that wait for the embedder do not delay the others. */
  readonly #byWords: Places;
  readonly #byMeaning: Places;

  constructor(options: FindServiceOptions) {
    this.port = options.port;
    this.#options = options;
    this.#documents = new FilteredDocuments(options.data, options.limits);
    this.#byWords = new Places(options.limits.pagesAtOnceMax);
    this.#byMeaning = new Places(options.limits.pagesAtOnceMax);
  }

  async find(caller: Caller, request: FindRequest): Promise<FindPage> {
    const { limits, findProject, findRoom, findAgent } = this.#options;
    const { project } = request;
    const projectId = project === undefined ? null : await findProject(caller, project);
    const roomId = request.room === undefined ? null : await findRoom(caller, request.room);
    const agent = request.agent === undefined ? null : await findAgent(caller, request.agent);
    const checked = checkRequest(caller, request, { projectId, roomId, agent }, limits);
    const { query } = checked;
    if (checked.mode !== 'text') await this.#requireVectors(caller, request);
    const places = checked.mode === 'text' ? this.#byWords : this.#byMeaning;
    return places.run(async () => {
      checkWanted(checked.signal);
      if (checked.sort !== null) return this.#sorted(caller, checked, query, checked.sort);
      return query === null ? this.#filtered(caller, checked) : this.#ranked(caller, checked, query);
    }, caller.user);
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
    const page = new HitPage(checked, limits);
    let [statistics, after] = [position?.statistics ?? null, position?.after ?? null];
    let examined = 0;
    const [slices, steps] = [new Slices(), this.#steps()];
    const readPage = this.#pages(checked, query);
    for (;;) {
      const wanted = filter === null ? limit + 1 - page.items.length : entriesPerRead;
      const answer = await readPage({ asOfMs, statistics, after, limit: wanted });
      ({ statistics } = answer);
      const { entries } = answer;
      const read = entries.slice(0, filter === null ? limit : undefined);
      for await (const [entry, record] of steps.of(caller.user, read)) {
        after = entry;
        examined += 1;
        if (record === undefined || isHidden(record) || !passes(record, checked)) continue;
        page.add(hitOf(entry, record, query, checked.values), record);
        await slices.pause();
        if (page.isFull) break;
      }
      const isLast = entries.length < wanted && (entries.length === 0 || after === entries.at(-1));
      const isAtLimit = filter !== null && examined >= limits.findDocumentsExaminedMax;
      if (!isLast && !page.isFull && !isAtLimit) {
        checkWanted(checked.signal);
        continue;
      }
      const next = isLast || after === null ? null : encodeWordsPosition(list, { asOfMs, statistics, after });
      return {
        items: page.items,
        next_cursor: next,
        examined_all: answer.isComplete && (isLast || page.isFull),
      };
    }
  }

  /** By a member of the value: everything is read to find the order, and then the page is read. */
  async #sorted(caller: Caller, checked: CheckedRequest, query: Query | null, sort: Sort): Promise<FindPage> {
    const { found, isComplete } =
      query === null
        ? await this.#documents.sorted(caller.user, checked, sort)
        : await this.#sortedByWords(caller, checked, query, sort);
    const rest = sortedAfter(found, checked, sort);
    const page = new HitPage(checked, this.#options.limits);
    let last: SortedDocument | undefined;
    for await (const [document, record] of this.#steps().of(caller.user, rest.slice(0, checked.limit))) {
      last = document;
      if (record !== undefined && !(query !== null && isHidden(record)) && passes(record, checked))
        page.add(hitOf(document.entry, record, query, checked.values), record);
      if (page.isFull) break;
    }
    return {
      items: page.items,
      next_cursor: last === undefined || last === rest.at(-1) ? null : sortedCursor(checked, last),
      examined_all: isComplete,
    };
  }

  /** Every match is read, up to `findSortedMax`. */
  async #sortedByWords(
    caller: Caller,
    checked: CheckedRequest,
    query: Query,
    sort: Sort,
  ): Promise<SortedDocuments> {
    const { limits, nowMs } = this.#options;
    const readPage = this.#pages(checked, query);
    const limit = limits.findSortedMax;
    const answer = await readPage({ asOfMs: nowMs(), statistics: null, after: null, limit });
    const found: SortedDocument[] = [];
    const slices = new Slices();
    for await (const [entry, record] of this.#steps().of(caller.user, answer.entries)) {
      checkWanted(checked.signal);
      const document = record?.document ?? null;
      if (record === undefined || document === null || isHidden(record)) continue;
      const value: unknown = JSON.parse(document.valueJson);
      if (checked.filter === null || checked.filter(value)) found.push(toSort(document, value, sort, entry));
      await slices.pause();
    }
    return { found, isComplete: answer.isComplete && answer.entries.length < limit };
  }

  /** Without words: documents in the order of their keys. */
  async #filtered(caller: Caller, checked: CheckedRequest): Promise<FindPage> {
    const page = await this.#documents.page(caller.user, checked);
    return {
      items: page.records.map((record) => hitOf(null, record, null, checked.values)),
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

  #steps(): RecordSteps {
    return new RecordSteps(this.#options, this.#options.limits.dataPageBytesMax);
  }
}

/** A document that was just taken out of the search may still have a vector. */
function isHidden({ document }: FoundRecord): boolean {
  return document?.indexed === false;
}

function passes({ document }: FoundRecord, { filter }: CheckedRequest): boolean {
  return filter === null || filter(JSON.parse(document?.valueJson ?? 'null'));
}
