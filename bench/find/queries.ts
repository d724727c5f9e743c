/** The queries of the bench, and the times that answers take. */
import {
  type CorpusShape,
  type MadeDocument,
  documentAt,
  makeCorpus,
} from '../../src/find/conformance/corpus.js';
import type { Row } from '../frame.js';
import { type Part, type Search, ownMemoryMiB } from './system.js';

const queriesPerShape = Number(process.env['FIND_QUERIES'] ?? 200);
const warmUpQueries = 20;
/** The goal for one answer. */
const goalMs = { p50: 5, p99: 50 };

export interface Asked {
  readonly words: number;
  readonly user: string;
  /** Null: all namespaces of the user. */
  readonly namespace: string | null;
  readonly text: string;
}

/** The name of the row of a query. */
function shapeOf({ words, namespace }: Pick<Asked, 'words' | 'namespace'>): string {
  return `${words} ${words === 1 ? 'word' : 'words'}, ${namespace === null ? 'a user' : 'a namespace'}`;
}

/** Words that the corpus has, spread over users and namespaces. */
export function askedOf(corpus: CorpusShape): Asked[] {
  return [1, 2, 6].flatMap((words) =>
    [true, false].flatMap((isWide) =>
      Array.from({ length: queriesPerShape }, (_, index): Asked => {
        const { user, namespace, value } = documentAt(
          corpus,
          (index * 7_919 + words * 13) % corpus.documents,
        );
        const own = value.text.split(/[^\p{L}\p{M}\p{Nd}]+/u).filter((word) => word.length > 1);
        const from = (index * 31) % Math.max(1, own.length - words);
        return {
          words,
          user,
          namespace: isWide ? null : namespace,
          text: own.slice(from, from + words).join(' '),
        };
      }),
    ),
  );
}

/** The documents of one namespace, at most so many, for one write. */
export function* batchesOf(
  { corpus, from, to }: Part,
  documentsMax: number,
): Generator<readonly MadeDocument[]> {
  const waiting = new Map<string, MadeDocument[]>();
  for (const document of makeCorpus(corpus, { from, to })) {
    const batch = waiting.get(document.namespace) ?? [];
    batch.push(document);
    waiting.set(document.namespace, batch);
    if (batch.length < documentsMax) continue;
    waiting.delete(document.namespace);
    yield batch;
  }
  yield* waiting.values();
}

/** By the shape of the queries, then by the search: milliseconds. */
type Times = ReadonlyMap<string, ReadonlyMap<Search, readonly number[]>>;

/** Asks every search each query in turn, so that a busy moment of the machine falls on all of them. */
export async function timesOf(asked: readonly Asked[], searches: readonly Search[]): Promise<Times> {
  const shapes = new Map<string, Map<Search, number[]>>();
  for (const shape of new Set(asked.map(shapeOf))) {
    const own = asked.filter((one) => shapeOf(one) === shape);
    const times = new Map(searches.map((search): [Search, number[]] => [search, []]));
    for (const one of own.slice(0, warmUpQueries)) for (const search of searches) await search.ask(one);
    for (const one of own) for (const search of searches) times.get(search)?.push(await search.ask(one));
    shapes.set(shape, times);
    process.stderr.write(`asked ${shape}: ${Math.round(await ownMemoryMiB())} MiB of own memory\n`);
  }
  return shapes;
}

/** The times of each home beside the goal and beside the other searches: the median and the 99th of a hundred. */
export function timeRows(times: Times): Row[] {
  return [...times].flatMap(([shape, bySearch]) =>
    (['p50', 'p99'] as const).flatMap((label) => {
      const at = (own: readonly number[]): number => share(own, label === 'p50' ? 0.5 : 0.99);
      const others = [...bySearch].filter(([{ isOurs }]) => !isOurs);
      return [...bySearch]
        .filter(([{ isOurs }]) => isOurs)
        .flatMap(([{ name }, own]): Row[] => [
          {
            what: `${name}: ${shape}, ${label}, against the goal`,
            ours: at(own),
            reference: goalMs[label],
            unit: 'ms',
            target: { atMost: 1 },
          },
          ...others.map(([other, compared]) => ({
            what: `${name}: ${shape}, ${label}, against ${other.name}`,
            ours: at(own),
            reference: at(compared),
            unit: 'ms',
          })),
        ]);
    }),
  );
}

function share(times: readonly number[], part: number): number {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}
