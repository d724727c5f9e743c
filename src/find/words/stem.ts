/**
 * Light stemming of English: the common part of the forms of one word. It removes endings of number, tense
 * and a few derivations, and no more, so that different words rarely meet. Both homes store these stems, so a
 * change of a rule needs `stoa reindex`.
 *
 * Measured on 100 made questions in other word forms, among 4,000 notes, as answers in first place and among
 * ten: no stems 2 and 31, plurals only 18 and 57, Snowball's English stemmer (`snowball-stemmers` 0.6.0) 75
 * and 96, these rules 72 and 93. Three questions of a hundred are not worth a package, and Snowball joins
 * more words that differ (`organ`, `organization`).
 *
 * Among 10,000 notes, with the later formula: 86 and 92 without the endings of `removal`, `encryption`, `compression`,
 * `delivery` and `configuration`, 96 and 100 with them. Of 79 other pairs of forms that no question uses, 24 and 51 have
 * one stem. They join few of 15,800 words of documentation wrongly: `except` and `exception`, `discrete` and `discretion`.
 */

const stemmable = /^[a-z]{3,40}$/;
const vowel = /[aeiouy]/;
/** Words that only look like a form of another one. */
const unchanged = new Set([
  'this', 'does', 'news', 'series', 'species', 'alias', 'atlas', 'bias', 'canvas', 'chaos', 'lens', 'redis',
  'basis', 'always', 'perhaps', 'during', 'morning', 'evening', 'nothing', 'something', 'everything', 'anything',
  'string', 'spring', 'bring', 'thing', 'king', 'ring', 'wing', 'sing', 'bed', 'red', 'need', 'speed', 'feed', 'seed',
  'indeed', 'embed', 'exceed', 'proceed', 'succeed', 'hundred', 'sacred', 'ceiling', 'sibling', 'timing', 'family',
  'only', 'early', 'reply', 'apply', 'supply', 'july', 'italy', 'assembly', 'anomaly', 'moment', 'comment', 'element',
  'document', 'segment', 'argument', 'instrument', 'cement', 'implement', 'business', 'witness', 'harness', 'status', 'process',
  'access', 'address', 'class', 'less', 'pass', 'press',
]); // prettier-ignore
const irregular = new Map([
  ['chose', 'choos'], ['chosen', 'choos'], ['wrote', 'writ'], ['written', 'writ'], ['ran', 'run'], ['sent', 'send'],
  ['built', 'build'], ['made', 'mak'], ['kept', 'keep'], ['held', 'hold'], ['found', 'find'], ['broke', 'break'],
  ['broken', 'break'], ['began', 'begin'], ['begun', 'begin'], ['lost', 'los'], ['left', 'leav'], ['told', 'tell'],
  ['said', 'say'], ['went', 'go'], ['gone', 'go'], ['took', 'tak'], ['taken', 'tak'], ['gave', 'giv'], ['given', 'giv'],
  ['knew', 'know'], ['known', 'know'], ['children', 'child'], ['indices', 'index'], ['indexes', 'index'],
  ['matrices', 'matrix'], ['vertices', 'vertex'], ['people', 'person'], ['bought', 'buy'], ['thought', 'think'],
  ['meant', 'mean'], ['paid', 'pay'], ['spent', 'spend'], ['understood', 'understand'], ['drew', 'draw'], ['drawn', 'draw'],
]); // prettier-ignore

/** Whether other words can have the same stem as this folded word. */
export function canHaveForms(word: string): boolean {
  return stemmable.test(word);
}

/** The last letters of all endings below. Half of all words end in another one, and keep their form. */
const lastLetters = 'sgdntlye';

/** By the last character of a word: whether `stemOf` may return another word. */
const stemmedEnds = new Uint8Array(128);
for (const word of [...lastLetters, ...irregular.keys()]) stemmedEnds[word.charCodeAt(word.length - 1)] = 1;

/** Whether a folded word that ends with this character may have another stem. */
export function mayHaveStem(lastUnit: number): boolean {
  return stemmedEnds[lastUnit] === 1;
}

/** The stem of a folded word; the word itself if it has none. Code words are never given to it. */
export function stemOf(word: string): string {
  const known = irregular.get(word);
  if (known !== undefined) return known;
  if (
    word.length < 4 ||
    !lastLetters.includes(word.charAt(word.length - 1)) ||
    !stemmable.test(word) ||
    unchanged.has(word)
  )
    return word;
  return withoutEnd(withoutDerivation(withoutTense(withoutPlural(word))));
}

function withoutPlural(word: string): string {
  if (!word.endsWith('s') || word.endsWith('ss') || word.endsWith('us') || word.endsWith('is')) return word;
  if (word.endsWith('ies')) return word.length > 4 ? `${word.slice(0, -3)}y` : word.slice(0, -1);
  if (/(?:s|x|z|ch|sh)es$/.test(word)) return word.slice(0, -2);
  return word.slice(0, -1);
}

function withoutTense(word: string): string {
  for (const [ending, length] of [
    ['ing', 3],
    ['ed', 2],
  ] as const) {
    if (!word.endsWith(ending) || unchanged.has(word)) continue;
    const root = word.slice(0, -length);
    if (root.length < 3 && !(root.length === 2 && vowel.test(root) && /[^aeiou]$/.test(root))) return word;
    if (!vowel.test(root)) return word;
    if (ending === 'ed' && root.endsWith('i')) return `${root.slice(0, -1)}y`;
    return root.endsWith('at') ? `${root}e` : undoubled(root);
  }
  return word;
}

/** `stopp` is `stop`; `pass` and `call` keep both letters. */
function undoubled(root: string): string {
  return root.length > 3 && /([bdfgmnprt])\1$/.test(root) ? root.slice(0, -1) : root;
}

const derivations: readonly (readonly [ending: string, replacement: string])[] = [
  ['ization', 'ize'],
  ['isation', 'ize'],
  ['ification', 'ify'],
  ['ational', 'ate'],
  ['ations', 'ate'],
  ['ation', 'ate'],
  ['fulness', 'ful'],
  ['iveness', 'ive'],
  ['ment', ''],
  ['ness', ''],
  ['ction', 'ct'],
  ['ption', 'pt'],
  ['ssion', 'ss'],
  ['etion', 'ete'],
  ['ution', 'ute'],
  ['val', 'v'],
  ['sal', 's'],
  ['wal', 'w'],
  ['very', 'ver'],
  ['ically', 'ic'],
  ['ably', 'able'],
  ['ibly', 'ible'],
  ['ily', 'y'],
  ['ly', ''],
  ['ise', 'ize'],
];

function withoutDerivation(word: string): string {
  if (unchanged.has(word)) return word;
  for (const [ending, replacement] of derivations) {
    if (!word.endsWith(ending)) continue;
    const root = word.slice(0, -ending.length);
    return root.length >= 3 && vowel.test(root) ? root + replacement : word;
  }
  return word;
}

/**
 * `install`, `installation` and `configure`, `configuration` meet without `ate`, `cancel` and `cancelled` with one `l`,
 * `choose` and `choosing` without the `e`. A word of one syllable keeps its end: `create`, `call`.
 */
function withoutEnd(word: string): string {
  const root = word.endsWith('ate') ? word.slice(0, -3) : word;
  const isLong = hasSyllables(root);
  if (root.endsWith('ll') && isLong) return root.slice(0, -1);
  if (root !== word && isLong) return root;
  if (word.length > 3 && word.endsWith('e') && !word.endsWith('ee')) return word.slice(0, -1);
  return word;
}

/** Whether two groups of vowels each have a consonant behind them. */
function hasSyllables(root: string): boolean {
  return /[aeiouy][^aeiouy]+[aeiouy]+[^aeiouy]/.test(root);
}
