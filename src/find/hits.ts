/** The results of a search, as every door shows them. */
import type { Limits } from '../core/settings/limits.js';
import type { JsonValue } from '../datastore/model.js';
import type { FindHit } from './answers.js';
import { excerptOf } from './excerpt.js';
import type { Excerpt, RankedEntry } from './model.js';
import type { Query } from './query/query.js';
import { type FoundRecord, valueBytes } from './records.js';
import type { CheckedRequest } from './requests.js';

/** The results of one page. With their values it ends early where these are too large. */
export class HitPage {
  readonly items: FindHit[] = [];
  readonly #limit: number;
  #bytesLeft: number;

  constructor({ limit, values }: CheckedRequest, { dataPageBytesMax }: Limits) {
    this.#limit = limit;
    this.#bytesLeft = values ? dataPageBytesMax : Infinity;
  }

  get isFull(): boolean {
    return this.items.length === this.#limit || this.#bytesLeft <= 0;
  }

  add(hit: FindHit, record: FoundRecord): void {
    this.items.push(hit);
    this.#bytesLeft -= valueBytes(record);
  }
}

export function hitOf(
  entry: RankedEntry | null,
  { text, document, version, timeMs, author, room }: FoundRecord,
  query: Query | null,
  values: boolean,
): FindHit {
  const excerpt: Excerpt = excerptOf(text, query ?? { groups: [], phrases: [], excluded: [] });
  return {
    ...placeOf(entry, document),
    ...(room !== null && { room }),
    score: entry === null ? null : Number(entry.score.toFixed(6)),
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

function placeOf(
  entry: RankedEntry | null,
  document: FoundRecord['document'],
): Pick<FindHit, 'kind' | 'namespace' | 'key' | 'project_id' | 'room_id' | 'id'> {
  if (document !== null) return { kind: 'data', namespace: document.namespace, key: document.key };
  const { kind, collection, id } = (entry as RankedEntry).name; // Only documents are found without words.
  return kind === 'tasks' ? { kind, project_id: collection, id } : { kind, room_id: collection, id };
}
