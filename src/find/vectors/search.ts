/** Searches by meaning, and by words and meaning together: one list of results, cut into pages. */
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import type { RankedEntry } from '../model.js';
import type { FindPort, IndexAnswer, IndexSearch } from '../port.js';
import type { Query } from '../query/query.js';
import type { Statistics } from '../ranking/formula.js';
import { compareRanked } from '../ranking/order.js';
import type { CheckedRequest } from '../requests.js';
import type { Embedding } from './embedding.js';
import { fuse } from './fusion.js';

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

/** Reads the pages of a search with `mode` vector or hybrid. The list is made once for all pages of one request. */
export function vectorPages(
  options: VectorSearchOptions,
  checked: CheckedRequest,
  query: Query,
  words: ReadPage,
): ReadPage {
  let list: Promise<IndexAnswer> | undefined;
  return async (page) => {
    list ??= ranked(options, checked, query, words, page);
    const { entries, statistics, isComplete } = await list;
    const { after, limit } = page;
    const rest = after === null ? entries : entries.filter((entry) => compareRanked(entry, after) > 0);
    return { entries: rest.slice(0, limit), statistics, isComplete };
  };
}

async function ranked(
  options: VectorSearchOptions,
  checked: CheckedRequest,
  query: Query,
  words: ReadPage,
  { asOfMs, statistics }: Parameters<ReadPage>[0],
): Promise<IndexAnswer> {
  const { limits } = options;
  const found = await similar(options, checked, asOfMs);
  if (checked.mode === 'vector') return { ...found, statistics: statistics ?? noStatistics(query) };
  const answer = await words({ asOfMs, statistics, after: null, limit: limits.vectorResultsMax });
  return {
    entries: fuse([answer.entries, found.entries]),
    statistics: answer.statistics,
    isComplete: answer.isComplete && found.isComplete && answer.entries.length < limits.vectorResultsMax,
  };
}

async function similar(
  { port, embedding, limits, nowMs }: VectorSearchOptions,
  { parts, text, prefix, agent, sinceMs, untilMs, signal }: CheckedRequest,
  asOfMs: number,
): Promise<{ entries: readonly RankedEntry[]; isComplete: boolean }> {
  if (embedding === null) throw noEmbedder();
  if (parts.data === null) return { entries: [], isComplete: true };
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
