/** Made questions with known answers: documents that are added to the corpus, and what is asked about them. */
import { Chance, type MadeDocument, codeWord, textOf } from './corpus.js';
import { type Language, codeEndings, codeNouns, codeVerbs, languages, wordForms } from './vocabulary.js';

export const questionKinds = ['exact wording', 'other word forms', 'other languages', 'code words'] as const;
type QuestionKind = (typeof questionKinds)[number];

export interface Question {
  readonly kind: QuestionKind;
  readonly text: string;
  /** The document that answers it. */
  readonly answer: MadeDocument;
}

/** Questions about notes of one namespace. Even ones choose the constants, odd ones are reported. */
export function makeQuestions(
  seed: number,
  perKind: number,
  place: { readonly user: string; readonly namespace: string },
): Question[] {
  return questionKinds.flatMap((kind, kindIndex) =>
    Array.from({ length: perKind }, (_, index) => {
      const chance = new Chance(seed + kindIndex * 100_003 + index);
      const { said, asked, language } = makers[kind](chance);
      const [before, after] = [
        textOf(language, chance, 150),
        textOf(language, chance, 100 + chance.below(700)),
      ];
      const name = kind.replaceAll(' ', '-');
      const answer: MadeDocument = {
        ...place,
        key: `facts/${name}-${index}`,
        value: {
          title: textOf(language, chance, 10),
          text: `${before} ${said}${language.end} ${after}`,
          tags: [language.name.toLowerCase()],
        },
      };
      return { kind, text: asked, answer };
    }),
  );
}

interface Fact {
  readonly said: string;
  readonly asked: string;
  readonly language: Language;
}

const english = languages[0] as Language;

const makers: Record<QuestionKind, (chance: Chance) => Fact> = {
  'exact wording': (chance) => {
    const [a, b, c] = three(english, chance);
    const action = chance.of(english.actions);
    return {
      said: `For the ${a} we ${action} the ${b} and keep the ${c}`,
      asked: `which ${b} did we ${action} for the ${a} and the ${c}`,
      language: english,
    };
  },
  'other word forms': (chance) => {
    const [first, second] = [chance.of(wordForms), chance.of(wordForms)];
    const [a, b] = three(english, chance);
    return {
      said: `The ${a} was ${first[0]} after the ${b} ${second[0]}`,
      asked: `${first[1]} ${a} ${second[1]} ${b}`,
      language: english,
    };
  },
  'other languages': (chance) => {
    const language = chance.of(languages.slice(1));
    const [a, b, c] = three(language, chance);
    const action = chance.of(language.actions);
    const { space, common } = language;
    return {
      said: [a, chance.of(common), action, b, chance.of(common), c].join(space),
      asked: [b, c, action].join(space === '' ? ' ' : space).normalize('NFD'),
      language,
    };
  },
  'code words': (chance) => {
    const [verb, noun] = [chance.of(codeVerbs), chance.of(codeNouns)];
    const name = `${verb}${noun.charAt(0).toUpperCase()}${noun.slice(1)}${chance.of(codeEndings)}`;
    const [other, thing] = [codeWord(chance), chance.of(english.things)];
    const parts = name.replaceAll(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
    return {
      said: `${name} fails with ${other} in the ${thing}`,
      asked: chance.next() < 0.5 ? `${name} ${other} ${thing}` : `${parts} ${other} ${thing}`,
      language: english,
    };
  },
};

/** Three different things. */
function three({ things }: Language, chance: Chance): [string, string, string] {
  const found = new Set<string>();
  while (found.size < 3) found.add(chance.of(things));
  return [...found] as [string, string, string];
}
