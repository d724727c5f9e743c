/** The terms of a text in the plainest way: an object for each. What the index stores is compared with them. */
import { stemTermOf } from '../../src/find/words/entry-terms.js';
import type { EntryText } from '../../src/find/model.js';
import { tokensOf } from '../../src/find/words/words.js';

export interface PlainUse {
  title: number;
  body: number;
  positions: number[];
}

export interface PlainTerms {
  readonly titleLength: number;
  readonly bodyLength: number;
  readonly terms: ReadonlyMap<string, PlainUse>;
}

const positionsMax = 24;
/** Words of two pieces are never neighbours. */
const gap = 17;

export function plainTerms({ title, body }: EntryText): PlainTerms {
  const terms = new Map<string, PlainUse>();
  const lengths = { title: 0, body: 0 };
  let offset = 0;
  const add = (term: string, field: 'title' | 'body', position: number): void => {
    const use = terms.get(term) ?? { title: 0, body: 0, positions: [] };
    terms.set(term, use);
    use[field] += 1;
    if (use.positions.length < positionsMax && position > (use.positions.at(-1) ?? -1))
      use.positions.push(position);
  };
  for (const [field, pieces] of [
    ['title', title],
    ['body', body],
  ] as const)
    for (const piece of pieces) {
      let last = -1;
      for (const { word, position, kind } of tokensOf(piece)) {
        if (position !== last && kind !== 'whole') lengths[field] += 1;
        last = Math.max(last, position);
        add(word, field, offset + position);
        const stem = kind === 'word' ? stemTermOf(word) : undefined;
        if (stem !== undefined) add(stem, field, offset + position);
      }
      offset += last + 1 + gap;
    }
  return { titleLength: lengths.title, bodyLength: lengths.body, terms };
}
