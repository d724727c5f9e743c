/** The output of a command: tables for people, JSON for programs; data on stdout, messages on stderr. */
import type { StoaError } from '../../core/errors.js';
import { printableJson, printableLines } from './printable.js';
import { Progress } from './progress.js';
import { ShownIds, shortId } from './short-ids.js';
import {
  type Column,
  type TableStyle,
  cellText,
  foldedLines,
  foldedMin,
  idHeadings,
  readableId,
  tableLines,
  timeText,
} from './table.js';

export type { Column } from './table.js';

/** Columns of a table if the output is not a terminal. */
const plainColumns = 80;

type OutputStream = NodeJS.WritableStream & { isTTY?: boolean; columns?: number };

export interface OutputOptions {
  json: boolean;
  /** Prints whole ids, exact times and uncut texts in tables. */
  wide?: boolean;
  /** Streams for tests; the default is the process's. */
  stdout?: OutputStream;
  stderr?: OutputStream;
  environment?: Readonly<Record<string, string | undefined>>;
}

export class Output {
  readonly json: boolean;
  readonly #wide: boolean;
  readonly #stdout: OutputStream;
  readonly #stderr: OutputStream;
  readonly #environment: Readonly<Record<string, string | undefined>>;
  readonly #shownIds: ShownIds;

  constructor(options: OutputOptions) {
    this.json = options.json;
    this.#stdout = options.stdout ?? process.stdout;
    this.#stderr = options.stderr ?? process.stderr;
    this.#environment = options.environment ?? process.env;
    this.#wide = options.wide === true;
    this.#shownIds = new ShownIds(this.#environment);
  }

  /** One value: as JSON for programs; for people one field on each line, without the empty ones. */
  value(value: object): void {
    this.#stdout.write(this.json ? `${printableJson(value, 2)}\n` : this.#fields(value));
  }

  /** The result of a command without a value: a fact for programs, a sentence for people. */
  done(fact: object, sentence: string): void {
    if (this.json) this.value(fact);
    else this.say(sentence);
  }

  /**
   * A page of a list; people see how to get the next page. A column named by `folds`, the last one, is never
   * cut: a terminal shows the rest of its text on further lines.
   */
  list<Item>(
    page: { items: readonly Item[]; next_cursor?: string | null | undefined },
    columns: readonly Column<Item>[],
    empty: string,
    folds?: string,
  ): void {
    if (this.json) {
      this.#stdout.write(`${printableJson(page, 2)}\n`);
      return;
    }
    if (page.items.length === 0) this.say(empty);
    else this.#stdout.write(this.#table(page.items, columns, folds));
    if (page.next_cursor !== null && page.next_cursor !== undefined)
      this.say(`There are more: --cursor ${page.next_cursor}`);
  }

  /** One item of an endless stream: one line of JSON for programs. Line breaks inside a text are indented. */
  line(value: object, ...texts: readonly string[]): void {
    const lines = this.json
      ? [printableJson(value)]
      : texts.map((text) => printableLines(text).replaceAll('\n', '\n  '));
    this.#stdout.write(lines.map((line) => `${line}\n`).join(''));
  }

  /** The value of a document as JSON. A raw text has no quotes; programs and files get it unchanged. */
  stored(document: object, value: unknown, isRaw: boolean): void {
    if (this.json) this.line(document);
    else if (!isRaw || typeof value !== 'string') this.#stdout.write(`${printableJson(value, 2)}\n`);
    else this.#stdout.write(`${this.#stdout.isTTY === true ? printableLines(value) : value}\n`);
  }

  /** An id as tables show it; other commands accept it. */
  id(id: string): string {
    if (this.#wide || (shortId(id) !== id && !this.#shownIds.remember([id]))) return id;
    return shortId(readableId(id));
  }

  /** A time in a line of a stream. */
  time(at: string): string {
    return this.#wide ? at : timeText(at);
  }

  /** Whether sentences go to a terminal, where a person reads them, and not to a file or a log. */
  get isRead(): boolean {
    return this.#stderr.isTTY === true;
  }

  /** A sentence for people, never data. */
  say(sentence: string): void {
    this.#stderr.write(`${printableLines(sentence)}\n`);
  }

  /** An error and its fix. */
  error(error: StoaError): void {
    if (this.json) {
      const { code, title, message, fix, details } = error;
      this.#stderr.write(
        `${printableJson({ code, title, detail: message, ...(fix !== undefined && { fix }), ...(details !== undefined && { details }) })}\n`,
      );
      return;
    }
    this.#marked('31;1', 'error ', `${error.message} (${error.code})`);
    if (error.fix !== undefined) this.#marked('32;1', 'fix   ', error.fix);
  }

  /** A line that shows the progress of long work; programs get none. */
  progress(label: string, before = 0): Progress {
    return new Progress(label, this.json ? undefined : this.#stderr, before);
  }

  /** Shows the progress of `work`, and clears the line at its end. */
  async working<Result>(label: string, work: (progress: Progress) => Promise<Result>): Promise<Result> {
    const progress = this.progress(label);
    return work(progress).finally(() => progress.end());
  }

  warn(sentence: string): void {
    this.#marked('33;1', 'warning ', sentence);
  }

  /** In a terminal no word is broken at the end of a line. Other readers get one line. */
  #marked(color: string, mark: string, text: string): void {
    const columns = (this.#stderr.isTTY === true && this.#stderr.columns) || Infinity;
    const lines = foldedLines(text, Math.max(foldedMin, columns - mark.length));
    this.#stderr.write(
      `${this.#paint(this.#stderr, color, mark)}${lines.join(`\n${' '.repeat(mark.length)}`)}\n`,
    );
  }

  #fields(value: object): string {
    // Names inside a field can be anybody's.
    const rows = fieldRows(value).map(([name, field]) => [cellText(name), field] as const);
    const width = Math.max(0, ...rows.map(([name]) => name.length));
    return rows
      .map(([name, field]) => {
        const text = cellText(field);
        // A long id is not aligned if a terminal would wrap it then.
        const isAligned = width + 2 + text.length <= this.#columns;
        return `${this.#paint(this.#stdout, '2', isAligned ? name.padEnd(width) : name)}  ${text}\n`;
      })
      .join('');
  }

  #table<Item>(items: readonly Item[], columns: readonly Column<Item>[], folds: string | undefined): string {
    const style = { ...this.#tableStyle(items, columns), folds };
    const [head = '', ...rows] = tableLines(items, columns, style);
    return `${[this.#paint(this.#stdout, '1', head), ...rows].join('\n')}\n`;
  }

  /** Short ids are remembered, so that other commands accept them. */
  #tableStyle<Item>(items: readonly Item[], columns: readonly Column<Item>[]): TableStyle {
    const nowMs = Date.now();
    const isTerminal = this.#stdout.isTTY === true;
    if (this.#wide) return { width: Infinity, isTerminal, nowMs, shortened: undefined };
    const texts = items.flatMap((item) =>
      columns.filter(([heading]) => idHeadings.test(heading)).map(([, cell]) => cell(item)),
    );
    const ids = texts.filter((text) => typeof text === 'string').filter((text) => shortId(text) !== text);
    const isShort = ids.length === 0 || this.#shownIds.remember([...new Set(ids)]);
    return {
      width: this.#columns,
      isTerminal,
      nowMs,
      shortened: isShort ? shortId : (id) => id,
    };
  }

  get #columns(): number {
    return (this.#stdout.isTTY === true && this.#stdout.columns) || plainColumns;
  }

  #paint(stream: { isTTY?: boolean }, code: string, text: string): string {
    const isPlain =
      stream.isTTY !== true ||
      (this.#environment['NO_COLOR'] ?? '') !== '' ||
      this.#environment['TERM'] === 'dumb';
    return isPlain ? text : `\u001B[${code}m${text}\u001B[0m`;
  }
}

/** The fields that say something. A field of an object is a row of its own: `lease.holder`. */
function fieldRows(value: object, prefix = ''): [name: string, field: unknown][] {
  return Object.entries(value).flatMap(([name, field]: [string, unknown]) => {
    if (field === null || field === undefined || field === '') return [];
    if (Array.isArray(field) && field.length === 0) return [];
    return typeof field === 'object' && !Array.isArray(field)
      ? fieldRows(field, `${prefix}${name}.`)
      : [[`${prefix}${name}`, field] as [string, unknown]];
  });
}

/** `1 document`, `2 documents`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** `1536` → `1.5 KiB`. */
export function sizeText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [size, unit] = [bytes, 0];
  while (size >= 1024 && unit < units.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}
