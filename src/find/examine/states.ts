/** What must hold between one thing, its mark and its entries in segments. The same rules for every home. */
import type { DamageKind } from '../../operations/model.js';
import type { EntryName } from '../model.js';
import type { Catalog, IndexedFacts } from '../segments/catalog.js';
import { packedLengths } from '../segments/packed-terms.js';
import type { SegmentFacts } from '../segments/facts.js';
import type { DeadPlaces, WaitingEntry } from '../segments/segment.js';
import { type Fingerprints, hasWordsOf } from './fingerprints.js';

/** An entry in a segment that is neither dead nor expired. */
export interface FiledEntry {
  readonly segment: string;
  readonly facts: IndexedFacts;
}

/** One thing as a transaction sees it. */
export interface EntryState {
  readonly name: EntryName;
  /** Whether it waits to be filed. Then its entries in segments do not count. */
  readonly isMarked: boolean;
  /** From its record; undefined if searches must not find it. */
  readonly entry: WaitingEntry | undefined;
  readonly filed: readonly FiledEntry[];
}

/** Something that looked wrong, to be looked at again in one transaction. */
export interface Suspect {
  readonly name: EntryName;
  /** The segment whose words differ from the record of this version. */
  readonly words?: { readonly segment: string; readonly version: number };
}

export interface EntryProblem {
  readonly kind: DamageKind;
  readonly problem: string;
}

export const entryRepair = 'mark it, so that it is filed again';

/** Null if everything is right. */
export function problemOf(
  { isMarked, entry, filed }: EntryState,
  { name, words }: Suspect,
): EntryProblem | null {
  if (isMarked) return null;
  const about = `${nouns[name.kind]} "${name.id}" of ${name.collection}`;
  const [first] = filed;
  if (entry === undefined)
    return first === undefined
      ? null
      : {
          kind: 'dangling',
          problem: `The search index has ${about}, which does not exist or is not to be found.`,
        };
  if (first === undefined) return { kind: 'missing', problem: `The search index does not have ${about}.` };
  if (filed.length > 1)
    return { kind: 'duplicate', problem: `The search index has ${about} ${filed.length} times.` };
  const difference = differenceOf(first.facts, entry);
  if (difference !== null)
    return { kind: 'wrong', problem: `The search index has another ${difference} of ${about}.` };
  if (words?.segment === first.segment && words.version === entry.version)
    return { kind: 'wrong', problem: `The search index has other words of ${about}.` };
  return null;
}

const nouns = { data: 'the document', tasks: 'the task', messages: 'the message' } as const;

/** The first fact that is not that of the record; null if all are. */
function differenceOf(facts: IndexedFacts, entry: WaitingEntry): string | null {
  const { titleLength, bodyLength } = packedLengths(entry.packed);
  if (facts.version !== entry.version) return 'version';
  if (facts.author !== entry.author) return 'author';
  if (facts.timeMs !== entry.timeMs) return 'time';
  // How long rooms keep messages is a setting; a search reads each message by the present one.
  if (facts.name.kind !== 'messages' && facts.expiresAtMs !== entry.expiresAtMs) return 'expiry';
  return facts.titleLength === titleLength && facts.bodyLength === bodyLength ? null : 'number of words';
}

export interface ComparedSegment {
  readonly segment: string;
  readonly catalog: Catalog;
  readonly facts: SegmentFacts;
  readonly dead: DeadPlaces;
  readonly sums: Fingerprints;
}

/** The living places of a segment. */
export function livingPlaces(
  { catalog, dead }: Pick<ComparedSegment, 'catalog' | 'dead'>,
  nowMs: number,
): number[] {
  const places: number[] = [];
  for (let place = 0; place < catalog.count; place += 1)
    if (!dead.has(place) && catalog.expiry(place) > nowMs) places.push(place);
  return places;
}

/** Whether the entry at this place differs from that of its record. */
export function suspectAt(
  { segment, catalog, facts, sums }: ComparedSegment,
  place: number,
  entry: WaitingEntry | undefined,
): Suspect | null {
  const filed = catalog.entry(place, facts.at(place));
  if (entry === undefined || differenceOf(filed, entry) !== null) return { name: filed.name };
  if (hasWordsOf(sums, place, entry)) return null;
  return { name: filed.name, words: { segment, version: entry.version } };
}
