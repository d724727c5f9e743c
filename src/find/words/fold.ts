/** Folding: the one form in which a word is stored and compared. */

// oxlint-disable-next-line no-control-regex -- all of ASCII
const ascii = /^[\0-\x7f]*$/;
/**
 * Letters that have no other form: lower-case ASCII, Russian without й and ё, kana, Han and Hangul. Most
 * words of those scripts need none of the steps below, which cost ten times as much.
 */
// oxlint-disable-next-line no-control-regex -- ASCII without capitals
const plainForms = /^[\0-@[-\x7fа-ик-яぁ-ゖァ-ヺー一-鿿가-힣]*$/;
/**
 * Accents of Latin, Greek and Cyrillic; vowel points of Hebrew and Arabic, hamza and madda above and below a letter, and the
 * stroke that makes an Arabic word longer. Vowel signs of Indic scripts stay.
 */
const foldedMarks =
  /[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u0655\u0670\u0640]/g;
/** Letters that Unicode does not decompose, with the letters that people type instead. */
const plainLetters: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  đ: 'd',
  ð: 'd',
  þ: 'th',
  ł: 'l',
  ı: 'i',
  ħ: 'h',
  ς: 'σ',
};
const unusualLetter = /[ßæœøđðþłıħς]/g;

/** Lower case, compatibility forms replaced, accents removed: `Café`, `CAFÉ` and `cafe` are one word. */
export function fold(word: string): string {
  const lower = word.toLowerCase();
  if (ascii.test(word) || plainForms.test(lower)) return lower;
  return word
    .normalize('NFKC')
    .toLowerCase()
    .normalize('NFD')
    .replace(foldedMarks, '')
    .normalize('NFC')
    .replace(unusualLetter, (letter) => plainLetters[letter] ?? letter);
}
