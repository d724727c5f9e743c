/** The part of a text that shows why it was found. */
import type { EntryText, Excerpt } from './model.js';
import type { Query } from './query/query.js';
import { isStemTerm, stemTermOf } from './words/entry-terms.js';
import { eachToken } from './words/words.js';

/** Characters of an excerpt, about three lines. */
const excerptCharacters = 240;
/** Characters before the first matched word. */
const leadCharacters = 40;
/** Pieces of a text are shown one after the other. */
const between = ' · ';
/** The most matched words that are examined. A long text may have more. */
const matchesMax = 2_000;

interface Match {
  readonly start: number;
  readonly end: number;
  readonly group: number;
}

/** The window with the most different words of the query; the beginning of the body if it has none of them. */
export function excerptOf({ title, body }: EntryText, query: Query): Excerpt {
  const text = (body.length > 0 ? body : title).join(between);
  const matches = matchesIn(text, query);
  const first = bestStart(matches);
  const from = first === 0 ? 0 : wordStart(text, first - leadCharacters);
  const to = wordEnd(text, from + excerptCharacters);
  const lead = from > 0 ? '… ' : '';
  const shown = text.slice(from, to).replaceAll(/\s/g, ' ');
  const marks = matches
    .filter(({ start, end }) => start >= from && end <= to)
    .map(({ start, end }): [number, number] => [start - from + lead.length, end - from + lead.length]);
  return { text: `${lead}${shown}${to < text.length ? ' …' : ''}`, marks: withoutOverlaps(marks) };
}

/** The excerpt with `**` around the matched words, for readers of plain text. */
export function markedText({ text, marks }: Excerpt): string {
  let shown = '';
  let at = 0;
  for (const [start, end] of marks) {
    shown += `${text.slice(at, start)}**${text.slice(start, end)}**`;
    at = end;
  }
  return shown + text.slice(at);
}

function matchesIn(text: string, { groups }: Query): Match[] {
  const exact = new Map<string, number>();
  const stems = new Map<string, number>();
  const beginnings: { begin: string; group: number }[] = [];
  for (const [group, { terms }] of groups.entries())
    for (const { term, isPrefix } of terms) {
      if (isPrefix) beginnings.push({ begin: term, group });
      else (isStemTerm(term) ? stems : exact).set(term, group);
    }
  const matches: Match[] = [];
  eachToken(text, (word, _position, kind, start, end) => {
    if (matches.length >= matchesMax) return;
    const group =
      exact.get(word) ??
      (kind === 'word' ? stems.get(stemTermOf(word) ?? '') : undefined) ??
      beginnings.find(({ begin }) => word.startsWith(begin))?.group;
    if (group !== undefined) matches.push({ start, end, group });
  });
  return matches.toSorted((a, b) => a.start - b.start || b.end - a.end);
}

/** The start of the window that has the most different words, then the most words. */
function bestStart(matches: readonly Match[]): number {
  let best = { start: 0, different: 0, all: 0 };
  const counts = new Map<number, number>();
  let to = 0;
  for (let from = 0; from < matches.length; from += 1) {
    const { start, group } = matches[from] as Match;
    for (
      let next = matches[to];
      next !== undefined && next.end - start <= excerptCharacters - leadCharacters;
      next = matches[to]
    ) {
      counts.set(next.group, (counts.get(next.group) ?? 0) + 1);
      to += 1;
    }
    const all = to - from;
    if (counts.size > best.different || (counts.size === best.different && all > best.all))
      best = { start, different: counts.size, all };
    const left = (counts.get(group) ?? 0) - 1;
    if (left > 0) counts.set(group, left);
    else counts.delete(group);
    to = Math.max(to, from + 1);
  }
  return best.start;
}

function wordStart(text: string, wanted: number): number {
  if (wanted <= 0) return 0;
  const space = text.slice(wanted, wanted + leadCharacters).search(/\s/);
  return space < 0 ? onCharacter(text, wanted) : wanted + space + 1;
}

function wordEnd(text: string, wanted: number): number {
  if (wanted >= text.length) return text.length;
  const space = text.slice(wanted - leadCharacters, wanted).lastIndexOf(' ');
  return space < 0 ? onCharacter(text, wanted) : wanted - leadCharacters + space;
}

/** Not between the two halves of a surrogate pair. */
function onCharacter(text: string, at: number): number {
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit < 0xe000 ? at + 1 : at;
}

function withoutOverlaps(marks: readonly [number, number][]): [number, number][] {
  const kept: [number, number][] = [];
  for (const [start, end] of marks) {
    const last = kept.at(-1);
    if (last !== undefined && start < last[1]) last[1] = Math.max(last[1], end);
    else kept.push([start, end]);
  }
  return kept;
}
