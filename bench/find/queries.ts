/** The queries of the bench, and the times that answers take. */
import {
  type CorpusShape,
  type MadeDocument,
  documentAt,
  makeCorpus,
} from '../../src/find/conformance/corpus.js';
import type { Row } from '../frame.js';

const queriesPerShape = 200;

export interface Asked {
  readonly words: number;
  readonly user: string;
  /** Null: all namespaces of the user. */
  readonly namespace: string | null;
  readonly text: string;
}

/** The name of the row of a query. */
export function shapeOf({ words, namespace }: Pick<Asked, 'words' | 'namespace'>): string {
  return `${words} words, ${namespace === null ? 'a user' : 'a namespace'}`;
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
export function* batchesOf(corpus: CorpusShape, documentsMax: number): Generator<readonly MadeDocument[]> {
  const waiting = new Map<string, MadeDocument[]>();
  for (const document of makeCorpus(corpus)) {
    const batch = waiting.get(document.namespace) ?? [];
    batch.push(document);
    waiting.set(document.namespace, batch);
    if (batch.length < documentsMax) continue;
    waiting.delete(document.namespace);
    yield batch;
  }
  yield* waiting.values();
}

/** The times of the queries of each shape, in milliseconds. */
export type Times = ReadonlyMap<string, readonly number[]>;

export async function timesOf(
  asked: readonly Asked[],
  ask: (one: Asked) => Promise<void>,
): Promise<Map<string, number[]>> {
  const times = new Map<string, number[]>();
  for (const [shape, own] of grouped(asked, shapeOf)) {
    for (const one of own.slice(0, 20)) await ask(one);
    const measured: number[] = [];
    for (const one of own) measured.push(await timed(() => ask(one)));
    times.set(shape, measured);
  }
  return times;
}

/** The times of a home beside those of another search, median and 99th of a hundred. */
export function timeRows(home: string, ours: Times, other: string, reference: Times): Row[] {
  return [...ours].flatMap(([shape, times]) =>
    (
      [
        ['p50', 0.5],
        ['p99', 0.99],
      ] as const
    ).map(([label, share]) => ({
      what: `${home}: search ${shape}, ${label}, against ${other}`,
      ours: at(times, share),
      reference: at(reference.get(shape) ?? [], share),
      unit: 'ms',
    })),
  );
}

export async function timed(work: () => Promise<void>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

function at(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

/** The items of each group, in their order. */
export function grouped<Item>(
  items: readonly Item[],
  nameOf: (item: Item) => string,
): ReadonlyMap<string, readonly Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const name = nameOf(item);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [item]);
    else group.push(item);
  }
  return groups;
}
