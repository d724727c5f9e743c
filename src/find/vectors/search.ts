/** Searches by meaning, and by words and meaning together: one list of results, cut into pages. */
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import type { FindPort, IndexAnswer, IndexSearch } from '../port.js';
import type { Query } from '../query/query.js';
import type { Statistics } from '../ranking/formula.js';
import { compareRanked } from '../ranking/order.js';
import type { CheckedRequest } from '../requests.js';
import type { Embedding } from './embedding.js';
import { fuse } from './fusion.js';
import type { VectorAnswer } from './port.js';

/** One page of the results of a search. */
export type ReadPage = (
  page: Pick<IndexSearch, 'asOfMs' | 'statistics' | 'after' | 'limit'>,
) => Promise<IndexAnswer>;

export interface VectorSearchOptions {
  readonly port: FindPort;
  readonly embedding: Embedding | null;
  readonly limits: Limits;
  readonly nowMs: () => number;
}

/**
 * Reads the pages of a search with `mode` vector or hybrid. The list is made once for all pages of one request;
 * if its first page did not need all of it, a second time.
 */
export function vectorPages(
  options: VectorSearchOptions,
  checked: CheckedRequest,
  query: Query,
  words: ReadPage,
): ReadPage {
  let list: RankedList | undefined;
  return async (page) => {
    const { after, limit } = page;
    if (list === undefined || (after !== null && !list.isWhole))
      list = await ranked(options, checked, query, words, page);
    const { entries, statistics, isComplete } = list;
    const rest = after === null ? entries : entries.filter((entry) => compareRanked(entry, after) > 0);
    return { entries: rest.slice(0, limit), statistics, isComplete };
  };
}

interface RankedList extends IndexAnswer {
  readonly isWhole: boolean;
}

async function ranked(
  options: VectorSearchOptions,
  checked: CheckedRequest,
  query: Query,
  words: ReadPage,
  { asOfMs, statistics, after, limit }: Parameters<ReadPage>[0],
): Promise<RankedList> {
  const { limits } = options;
  // Fusion needs both lists whole, and so does a page in the middle.
  const isFirst = checked.mode === 'vector' && after === null;
  const found = await similar(options, checked, asOfMs, isFirst ? limit : limits.vectorResultsMax);
  if (checked.mode === 'vector') return { ...found, statistics: statistics ?? noStatistics(query) };
  const answer = await words({ asOfMs, statistics, after: null, limit: limits.vectorResultsMax });
  return {
    entries: fuse([answer.entries, found.entries]),
    statistics: answer.statistics,
    isComplete: answer.isComplete && found.isComplete && answer.entries.length < limits.vectorResultsMax,
    isWhole: true,
  };
}

async function similar(
  { port, embedding, limits, nowMs }: VectorSearchOptions,
  { parts, text, prefix, agent, sinceMs, untilMs, signal }: CheckedRequest,
  asOfMs: number,
  wanted: number,
): Promise<VectorAnswer> {
  if (embedding === null) throw noEmbedder();
  if (parts.data === null) return { entries: [], isComplete: true, isWhole: true };
  const vector = await embedding.ofQuery(text, () => signal?.aborted !== true);
  return port.vectors.search({
    ...parts.data,
    space: embedding.space,
    vector,
    prefix,
    author: agent,
    sinceMs,
    untilMs,
    nowMs: Math.max(asOfMs, nowMs()),
    limit: limits.vectorResultsMax,
    wanted: Math.min(wanted, limits.vectorResultsMax),
    signal,
  });
}

export function noEmbedder(): StoaError {
  return new StoaError('unsupported', 'The search needs an embedder, and this server has none.', {
    fix: 'Search with mode=text, or start the server with --embedder-url, --embedder-model and --embedder-dimensions.',
  });
}

/** Vectors need none. The cursor has a place for them. */
function noStatistics({ groups }: Query): Statistics {
  return { entries: 0, titleLength: 0, bodyLength: 0, frequencies: groups.map(() => 0) };
}
