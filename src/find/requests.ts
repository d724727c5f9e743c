/** What a caller asks for, checked: what is searched, and only what the caller may read. */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import { limitError } from '../core/settings/exceeds.js';
import type { Limits } from '../core/settings/limits.js';
import type { Cancellation } from '../core/waiting/cancellation.js';
import { readableScope } from '../datastore/access.js';
import { msOf } from '../datastore/documents/times.js';
import { checkPrefix } from '../datastore/names.js';
import { type Filter, filterOf } from './filter.js';
import { type FindKind, type FindMode, findKinds } from './model.js';
import type { SearchedParts } from './port.js';
import { type Query, isEmptyQuery, parseQuery } from './query/query.js';

export interface FindRequest {
  /** The words. Without them a filter or a sort is needed. */
  readonly q?: string | undefined;
  /** Default: the kinds that the other fields name, else all. */
  readonly in?: readonly FindKind[] | undefined;
  /** How results are found: by words, by meaning, or by both. Default: `text`. */
  readonly mode?: FindMode | undefined;
  readonly namespace?: string | undefined;
  /** Only documents whose key begins with this. */
  readonly prefix?: string | undefined;
  readonly project?: string | undefined;
  readonly room?: string | undefined;
  /** Only what this agent wrote last. */
  readonly agent?: string | undefined;
  /** ISO 8601; things written at this time or later. */
  readonly since?: string | undefined;
  /** ISO 8601; things written before this time. */
  readonly until?: string | undefined;
  readonly filter?: Readonly<Record<string, unknown>> | undefined;
  /** A member of the value; with `-` before it, the highest first. */
  readonly sort?: string | undefined;
  /** Whether results have the whole document. */
  readonly values?: boolean | undefined;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
  readonly signal?: Cancellation | undefined;
}

export interface Sort {
  readonly member: string;
  readonly isDescending: boolean;
}

export interface CheckedRequest {
  readonly query: Query | null;
  /** The words as they were sent. */
  readonly text: string;
  readonly mode: FindMode;
  readonly parts: SearchedParts;
  readonly prefix: string | null;
  readonly agent: string | null;
  /** The agent and its identities, under which it writes messages. */
  readonly authors: readonly string[] | null;
  readonly sinceMs: number | null;
  readonly untilMs: number | null;
  readonly filter: Filter | null;
  readonly sort: Sort | null;
  readonly values: boolean;
  readonly limit: number;
  /** Names the list for its cursors: everything but the page. */
  readonly list: string;
  readonly cursor: string | undefined;
  readonly signal: Cancellation | undefined;
}

/** What a search names, looked up. */
export interface FoundNames {
  readonly projectId: string | null;
  readonly roomId: string | null;
  readonly agent: FoundAgent | null;
}

/** An agent that a search names. */
export interface FoundAgent {
  readonly name: string;
  /** The ids under which it writes messages. */
  readonly identities: readonly string[];
}

export function checkRequest(
  caller: Caller,
  request: FindRequest,
  found: FoundNames,
  limits: Limits,
): CheckedRequest {
  const { projectId, roomId, agent: by } = found;
  const query = checkQuery(request, limits);
  const { mode = 'text' } = request;
  const kinds = mode === 'text' ? kindsOf(request) : documentsOnly(request, mode);
  const { filter, sort, prefix, agent, limit, cursor, signal, ...rest } = request;
  if (query === null && filter === undefined && sort === undefined)
    throw new StoaError('invalid_request', 'The search has no words and no filter.', {
      fix: 'Set q to the words, or filter to conditions on the values of documents.',
    });
  if ((filter !== undefined || sort !== undefined || query === null) && kinds.some((kind) => kind !== 'data'))
    throw new StoaError(
      'invalid_request',
      `The search has a filter or sort, or no words, but looks in ${kinds.join(', ')}. Filters and sorting work on documents.`,
      {
        fix: 'Set in to data, or leave out filter and sort.',
      },
    );
  if (prefix !== undefined) checkPrefix(prefix, limits);
  return {
    query,
    text: request.q ?? '',
    mode,
    parts: partsOf(caller, kinds, request, found, limits),
    prefix: prefix ?? null,
    agent: by?.name ?? null,
    authors: by === null ? null : [by.name, ...by.identities],
    sinceMs: timeOf('since', request.since),
    untilMs: timeOf('until', request.until),
    filter: filter === undefined ? null : checkFilter(filter, limits),
    sort: sort === undefined ? null : checkSort(sort, limits),
    values: request.values === true,
    limit: Math.min(Math.max(1, limit ?? limits.findItemsDefault), limits.findItemsMax),
    list: `find ${caller.user} ${JSON.stringify([rest, filter, sort, prefix, agent, projectId, roomId])}`,
    cursor,
    signal,
  };
}

function checkQuery({ q }: FindRequest, limits: Limits): Query | null {
  if (q === undefined) return null;
  const received = Buffer.byteLength(q);
  if (received > limits.findQueryBytesMax)
    throw limitError('invalid_request', {
      subject: 'The search',
      unit: 'bytes',
      limit: 'findQueryBytesMax',
      limits,
      received,
      advice: 'Send fewer words',
    });
  const query = parseQuery(q);
  if (isEmptyQuery(query))
    throw new StoaError('invalid_request', `The search "${q.slice(0, 60)}" has no word to look for.`, {
      fix: 'Send at least one word that is not excluded with "-".',
    });
  const phrases = query.phrases.length + query.excluded.length;
  if (phrases > limits.findPhrasesMax)
    throw limitError('invalid_request', {
      subject: 'The search',
      unit: 'phrases and excluded words',
      limit: 'findPhrasesMax',
      limits,
      received: phrases,
      advice: 'Send fewer of them',
    });
  return query;
}

/** Only documents have vectors. */
function documentsOnly({ q, in: kinds }: FindRequest, mode: FindMode): readonly FindKind[] {
  if (q === undefined)
    throw new StoaError('invalid_request', `A search with mode=${mode} has no words.`, {
      fix: 'Set q to the words, or leave out mode.',
    });
  if (kinds?.some((kind) => kind !== 'data') === true)
    throw new StoaError(
      'invalid_request',
      `The search has mode=${mode} and looks in ${kinds.join(', ')}. This mode finds only documents.`,
      {
        fix: 'Set in to data, or search tasks and messages with mode=text.',
      },
    );
  return ['data'];
}

/** A field that only one kind of thing has names that kind. */
function kindsOf(request: FindRequest): readonly FindKind[] {
  if (request.in !== undefined && request.in.length > 0) return [...new Set(request.in)];
  const { namespace, prefix, filter, sort, values, project, room, q } = request;
  const named: FindKind[] = [];
  if (
    q === undefined ||
    [namespace, prefix, filter, sort].some((field) => field !== undefined) ||
    values === true
  )
    named.push('data');
  if (project !== undefined) named.push('tasks');
  if (room !== undefined) named.push('messages');
  return named.length > 0 ? named : findKinds;
}

function partsOf(
  caller: Caller,
  kinds: readonly FindKind[],
  { namespace }: FindRequest,
  { projectId, roomId }: FoundNames,
  limits: Limits,
): SearchedParts {
  // An identity that is not linked to a user has no documents and no tasks.
  const hasUser = caller.user !== '';
  const namespaces =
    namespace === undefined ? caller.scopes.namespaces : [readableScope(caller, namespace, limits).namespace];
  return {
    data: hasUser && kinds.includes('data') ? { user: caller.user, namespaces } : null,
    tasks: hasUser && kinds.includes('tasks') ? { user: caller.user, project: projectId } : null,
    messages: kinds.includes('messages')
      ? { owner: hasUser ? caller.user : null, rooms: roomId === null ? null : [roomId] }
      : null,
  };
}

/** A day is its first moment. A time without a zone counts as UTC, whatever the zone of the server is. */
function timeOf(name: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  try {
    return msOf(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00` : text);
  } catch (cause) {
    throw new StoaError('invalid_request', `${name} is not a time: "${text.slice(0, 40)}".`, {
      fix: 'Write it as 2026-01-31 or 2026-01-31T12:00:00Z.',
      cause,
    });
  }
}

function checkFilter(filter: Readonly<Record<string, unknown>>, limits: Limits): Filter {
  const conditions = Object.keys(filter).length;
  if (conditions > limits.findFilterFieldsMax)
    throw limitError('invalid_request', {
      subject: 'The filter',
      unit: 'conditions',
      limit: 'findFilterFieldsMax',
      limits,
      received: conditions,
      advice: 'Send fewer conditions',
    });
  const received = Buffer.byteLength(JSON.stringify(filter));
  if (received > limits.findFilterBytesMax)
    throw limitError('invalid_request', {
      subject: 'The filter',
      unit: 'bytes of JSON',
      limit: 'findFilterBytesMax',
      limits,
      received,
      advice: 'Send a smaller filter',
    });
  return filterOf(filter);
}

function checkSort(sort: string, limits: Limits): Sort {
  const isDescending = sort.startsWith('-');
  const member = isDescending ? sort.slice(1) : sort;
  const fix = 'Write the name of a member of the value, with "-" before it for the highest first.';
  if (member === '')
    throw new StoaError('invalid_request', `sort does not name a member of the value: "${sort}".`, { fix });
  const received = Buffer.byteLength(member);
  if (received > limits.dataKeyBytesMax)
    throw limitError('invalid_request', {
      subject: 'The name in sort',
      unit: 'bytes',
      limit: 'dataKeyBytesMax',
      limits,
      received,
      advice: 'Send the name of a member of the value',
    });
  return { member, isDescending };
}
