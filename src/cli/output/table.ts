/** Tables for people: times as ages, short ids, and never wider than the terminal. */
import { decodeSegment } from '../../core/text/path-segment.js';
import { printable } from './printable.js';

/** A column of a table: its heading and its text for an item. */
export type Column<Item> = readonly [heading: string, cell: (item: Item) => unknown];

export interface TableStyle {
  /** Columns of the terminal. */
  width: number;
  /** Programs that read a table get the text of the folded column on one line. */
  isTerminal: boolean;
  /** The last column, if its texts are shown whole. */
  folds?: string | undefined;
  nowMs: number;
  /** Shortens ids; undefined prints them whole. */
  shortened: ((id: string) => string) | undefined;
}

const gap = 2;
/** A column is not cut below this, as long as another one can be. */
const columnMin = 8;
/** Columns of ids. A key or a name can look like an id, and is needed whole. */
export const idHeadings = /^(ID|AGENT|FROM|HOLDER|IDENTITY|OWNER|PROJECT|REPLY_TO)$/;

/** The lines of a table, the headings first. */
export function tableLines<Item>(
  items: readonly Item[],
  columns: readonly Column<Item>[],
  style: TableStyle,
): string[] {
  const folded = columns.find(([heading]) => heading === style.folds);
  const cutColumns = columns.filter((column) => column !== folded);
  const headings = columns.map(([heading]) => heading);
  const rows = [
    cutColumns.map(([heading]) => heading),
    ...items.map((item) => cutColumns.map(([heading, cell]) => tableCell(cell(item), heading, style))),
  ];
  const widths = cutColumns.map((_, at) =>
    Math.min(style.width, Math.max(...rows.map((row) => widthOf(row[at] ?? '')))),
  );
  fit(widths, headings, style.width - (folded === undefined ? 0 : foldedMin + gap));
  const starts = rows.map((row) =>
    row.map((cell, at) => padded(cut(cell, widths[at] ?? 0), widths[at] ?? 0)).join(' '.repeat(gap)),
  );
  if (folded === undefined) return starts.map((start) => cut(start.trimEnd(), style.width));
  const [heading, cell] = folded;
  const indent = widths.reduce((sum, each) => sum + each + gap, 0);
  const width = style.isTerminal ? Math.max(foldedMin, style.width - indent) : Infinity;
  return starts.flatMap((start, at) => {
    const item = items[at - 1];
    const lines = item === undefined ? [heading] : foldedLines(cell(item), width);
    return lines.map((line, index) => (index === 0 ? start + ' '.repeat(gap) : ' '.repeat(indent)) + line);
  });
}

/** Columns that a folded text gets in any case. */
export const foldedMin = 20;

/** The lines of a text, none wider than `width`; a line ends between words where it can. */
export function foldedLines(value: unknown, width: number): string[] {
  return String(value ?? '')
    .split(/\r?\n/)
    .flatMap((text) => {
      const lines: string[] = [];
      let line = '';
      for (const word of cellText(text).split(' ')) {
        const longer = line === '' ? word : `${line} ${word}`;
        if (widthOf(longer) <= width) {
          line = longer;
          continue;
        }
        if (line !== '') lines.push(line);
        line = word;
        for (let piece = fitting(line, width); piece !== line; piece = fitting(line, width)) {
          lines.push(piece);
          line = line.slice(piece.length);
        }
      }
      return [...lines, line];
    });
}

/** The beginning of a text that fits. */
function fitting(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let [kept, taken] = ['', 0];
  for (const character of text) {
    taken += widthOf(character);
    if (taken > width) break;
    kept += character;
  }
  return kept;
}

/** Takes from the widest column until the row fits. */
function fit(widths: number[], headings: readonly string[], width: number): void {
  let excess = widths.reduce((sum, each) => sum + each + gap, -gap) - width;
  for (; excess > 0; excess -= 1) {
    let widest = -1;
    for (const [at, heading] of headings.entries())
      if (
        (widths[at] ?? 0) > Math.max(columnMin, heading.length) &&
        (widths[at] ?? 0) > (widths[widest] ?? 0)
      )
        widest = at;
    if (widest < 0) return;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
}

function tableCell(value: unknown, heading: string, { nowMs, shortened }: TableStyle): string {
  if (shortened === undefined) return cellText(value);
  const atMs = timeOf(value);
  if (atMs !== undefined) return ageText(nowMs - atMs);
  return idHeadings.test(heading) ? shortened(readableId(cellText(value))) : cellText(value);
}

/** An id of the change feed with its encoded parts, which begin with `~`, as the text that they stand for. */
export function readableId(id: string): string {
  if (!id.includes('~')) return id;
  return cellText(
    id
      .split('/')
      .map((segment) => decodeSegment(segment) ?? segment)
      .join('/'),
  );
}

/** The time in milliseconds if the value is one. */
function timeOf(value: unknown): number | undefined {
  return typeof value === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(value)
    ? Date.parse(value)
    : undefined;
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const;

/** `90_000` → `1m`; a time in the future is `in 1m`. */
export function ageText(ageMs: number): string {
  const [unit, unitMs] = units.find(([, ms]) => Math.abs(ageMs) >= ms) ?? ['s', 1_000];
  const text = `${Math.floor(Math.abs(ageMs) / unitMs)}${unit}`;
  return ageMs <= -1_000 ? `in ${text}` : text;
}

const dayOf = (date: Date): string =>
  [date.getFullYear(), date.getMonth() + 1, date.getDate()]
    .map((part) => String(part).padStart(2, '0'))
    .join('-');

/** `12:00:05` for a time of today, otherwise `2026-01-31 12:00`; in the zone of the terminal. */
export function timeText(at: string, now = new Date()): string {
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) return at;
  const clock = time.toTimeString().slice(0, 8);
  return dayOf(time) === dayOf(now) ? clock : `${dayOf(time)} ${clock.slice(0, 5)}`;
}

/** The text of a value on one line. */
export function cellText(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return printable(text);
}

const wide =
  /[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]|\p{Emoji_Presentation}/u;
const invisible = /[\p{Mn}\p{Me}\p{Cf}]/u;

/** Columns of the terminal that a text takes. */
function widthOf(text: string): number {
  // Nearly all cells are ASCII.
  if (/^[\x20-\x7E]*$/.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += invisible.test(character) ? 0 : wide.test(character) ? 2 : 1;
  return width;
}

function padded(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)));
}

function cut(text: string, width: number): string {
  return widthOf(text) <= width ? text : `${fitting(text, width - 1)}…`;
}
