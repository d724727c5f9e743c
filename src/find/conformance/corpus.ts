/** The made corpus: the same documents for the same seed, on every machine. */
import {
  type Language,
  codeEndings,
  codeFiles,
  codeFolders,
  codeNouns,
  codeVerbs,
  languages,
} from './vocabulary.js';

export interface MadeDocument {
  readonly user: string;
  readonly namespace: string;
  readonly key: string;
  readonly value: { readonly title: string; readonly text: string; readonly tags: readonly string[] };
}

export interface CorpusShape {
  readonly seed: number;
  readonly documents: number;
  readonly users: number;
  readonly namespacesPerUser: number;
  /** True: documents of 300 to 2,000 bytes, all sizes equally often. Otherwise most are short. */
  readonly hasEvenSizes?: boolean;
}

/** A small generator of numbers. Not for secrets. */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = (seed * 2_654_435_761 + 12_345) >>> 0;
  }

  /** From 0 up to, and without, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  of<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)] as Item;
  }

  /** Small numbers often, large ones rarely, as words are used in texts. */
  rankBelow(count: number): number {
    return Math.floor(count ** this.next()) - 1;
  }
}

/** Made words of a language, beside those of its list. */
const madeWords = 4_000;
const textBytesMin = 200;
const textBytesMax = 1_800;
/** The least text of a document of 300 bytes: the other members take at least 57. */
const evenTextBytesMin = 243;

/** The documents with the numbers from `from` up to, and without, `to`. */
export function* makeCorpus(
  shape: CorpusShape,
  { from, to } = { from: 0, to: shape.documents },
): Generator<MadeDocument> {
  for (let index = from; index < to; index += 1) yield documentAt(shape, index);
}

/** Each document depends on its own number only, so a large corpus need not be in memory. */
export function documentAt(shape: CorpusShape, index: number): MadeDocument {
  const { seed, users, namespacesPerUser, hasEvenSizes = false } = shape;
  const chance = new Chance(seed + index);
  const user = `user-${chance.below(users)}`;
  const language = chance.next() < 0.5 ? (languages[0] as Language) : chance.of(languages.slice(1));
  const subject = phrase(language, chance, 2 + chance.below(3));
  const bytes = hasEvenSizes
    ? evenTextBytesMin + chance.below(textBytesMax - evenTextBytesMin)
    : textBytesMin + chance.rankBelow(textBytesMax - textBytesMin);
  return {
    user,
    namespace: `${user}-space-${chance.below(namespacesPerUser)}`,
    key: `notes/${codeWord(chance).replaceAll('/', '-')}-${index}`,
    value: {
      title: subject,
      text: textOf(language, chance, bytes),
      tags: [chance.of(languages[0]?.things ?? []), language.name.toLowerCase()],
    },
  };
}

/** Sentences of at least so many bytes. */
export function textOf(language: Language, chance: Chance, bytes: number): string {
  const sentences: string[] = [];
  for (let size = 0; size < bytes;) {
    const sentence = phrase(language, chance, 5 + chance.below(12)) + language.end;
    sentences.push(sentence);
    size += Buffer.byteLength(sentence) + 1;
  }
  return sentences.join(' ');
}

function phrase(language: Language, chance: Chance, words: number): string {
  return Array.from({ length: words }, () => wordOf(language, chance)).join(language.space);
}

function wordOf(language: Language, chance: Chance): string {
  const draw = chance.next();
  if (draw < 0.35) return chance.of(language.common);
  if (draw < 0.55) return language.things[chance.rankBelow(language.things.length)] ?? '';
  if (draw < 0.65) return chance.of(language.actions);
  if (draw < 0.7) return language.space === '' ? chance.of(language.things) : codeWord(chance);
  return madeWord(language, chance.rankBelow(madeWords));
}

/** The word of a number: always the same. */
function madeWord({ syllables }: Language, number: number): string {
  const chance = new Chance(number * 7 + syllables.length);
  return Array.from({ length: 2 + (number % 3) }, () => chance.of(syllables)).join('');
}

export function codeWord(chance: Chance): string {
  const [verb, noun] = [chance.of(codeVerbs), chance.of(codeNouns)];
  const shape = chance.below(4);
  if (shape === 0) return verb + noun.charAt(0).toUpperCase() + noun.slice(1) + chance.of(codeEndings);
  if (shape === 1) return `${noun}_${chance.of(codeNouns)}_${chance.of(['id', 'at', 'count', 'max'])}`;
  if (shape === 2)
    return `${chance.of(codeFolders)}/${noun}/${chance.of(codeFiles)}.${chance.of(['ts', 'go', 'py', 'sql'])}`;
  return `${chance.of(['E', 'HTTP', 'ERR'])}${100 + chance.below(500)}`;
}
