/**
 * Words that say little about what a note is about: a question has many of them, and its answer has others.
 * They add a little to a score, and an entry without them still has all words. A query of nothing else looks
 * for them.
 *
 * Only English: in a large collection the frequencies of words show which are common, in every language. In a
 * collection of a few notes they do not, and questions are mostly asked in English.
 */
const words = `a an the and or but if so as of in on at by to from for with without about into over under between
  is are was were be been being am do does did done has have had having can could will would shall should may might must
  i me my we us our ours you your he him his she her it its they them their this that these those there here
  what which who whom whose when where why how not no nor any some all each every both either neither
  than then too very just also only again such same other another more most much many few
  please tell show find give let us say said get got`;

const lightWords: ReadonlySet<string> = new Set(words.split(/\s+/));

/** Whether a folded word says little about what a note is about. */
export function isLightWord(word: string): boolean {
  return lightWords.has(word);
}
