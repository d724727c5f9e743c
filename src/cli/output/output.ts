/** The output of a command: tables for people, JSON for programs; data on stdout, messages on stderr. */
import type { StoaError } from '../../core/errors.js';
import { Progress } from './progress.js';

/** A column of a table: its heading and its text for an item. */
export type Column<Item> = readonly [heading: string, cell: (item: Item) => unknown];

export interface OutputOptions {
  json: boolean;
  /** Streams for tests; the default is the process's. */
  stdout?: NodeJS.WritableStream & { isTTY?: boolean };
  stderr?: NodeJS.WritableStream & { isTTY?: boolean };
  environment?: Readonly<Record<string, string | undefined>>;
}

export class Output {
  readonly json: boolean;
  readonly #stdout: NodeJS.WritableStream & { isTTY?: boolean };
  readonly #stderr: NodeJS.WritableStream & { isTTY?: boolean };
  readonly #environment: Readonly<Record<string, string | undefined>>;

  constructor(options: OutputOptions) {
    this.json = options.json;
    this.#stdout = options.stdout ?? process.stdout;
    this.#stderr = options.stderr ?? process.stderr;
    this.#environment = options.environment ?? process.env;
  }

  /** One value: as JSON for programs, one field on each line for people. */
  value(value: object): void {
    this.#stdout.write(this.json ? `${JSON.stringify(value, null, 2)}\n` : this.#fields(value));
  }

  /** The result of a command without a value: a fact for programs, a sentence for people. */
  done(fact: object, sentence: string): void {
    if (this.json) this.value(fact);
    else this.say(sentence);
  }

  /** A page of a list; people see how to get the next page. */
  list<Item>(
    page: { items: readonly Item[]; next_cursor?: string | null | undefined },
    columns: readonly Column<Item>[],
    empty: string,
  ): void {
    if (this.json) {
      this.#stdout.write(`${JSON.stringify(page, null, 2)}\n`);
      return;
    }
    if (page.items.length === 0) this.say(empty);
    else this.#stdout.write(this.#table(page.items, columns));
    if (page.next_cursor !== null && page.next_cursor !== undefined)
      this.say(`There are more: --cursor ${page.next_cursor}`);
  }

  /** One item of an endless stream: one line of JSON for programs. */
  line(value: object, text: string): void {
    this.#stdout.write(`${this.json ? JSON.stringify(value) : text}\n`);
  }

  /** A sentence for people, never data. */
  say(sentence: string): void {
    this.#stderr.write(`${sentence}\n`);
  }

  /** An error and its fix. */
  error(error: StoaError): void {
    if (this.json) {
      const { code, title, message, fix, details } = error;
      this.#stderr.write(
        `${JSON.stringify({ code, title, detail: message, ...(fix !== undefined && { fix }), ...(details !== undefined && { details }) })}\n`,
      );
      return;
    }
    this.say(
      `${this.#paint(this.#stderr, '31;1', 'error')} ${error.message} ${this.#paint(this.#stderr, '2', `(${error.code})`)}`,
    );
    if (error.fix !== undefined) this.say(`${this.#paint(this.#stderr, '32;1', 'fix')}   ${error.fix}`);
  }

  /** A line that shows the progress of long work; programs get none. */
  progress(label: string, before = 0): Progress {
    return new Progress(label, this.json ? undefined : this.#stderr, before);
  }

  warn(sentence: string): void {
    this.say(`${this.#paint(this.#stderr, '33;1', 'warning')} ${sentence}`);
  }

  #fields(value: object): string {
    const rows = Object.entries(value);
    const width = Math.max(0, ...rows.map(([name]) => name.length));
    return rows
      .map(
        ([name, field]) =>
          `${this.#paint(this.#stdout, '2', name.padEnd(width))}  ${cellText(field, name)}\n`,
      )
      .join('');
  }

  #table<Item>(items: readonly Item[], columns: readonly Column<Item>[]): string {
    const rows = items.map((item) => columns.map(([heading, cell]) => cellText(cell(item), heading)));
    const widths = columns.map(([heading], column) =>
      Math.max(heading.length, ...rows.map((row) => row[column]?.length ?? 0)),
    );
    const format = (cells: readonly string[]): string =>
      cells
        .map((cell, column) => (column === cells.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
        .join('  ')
        .trimEnd();
    const head = this.#paint(this.#stdout, '1', format(columns.map(([heading]) => heading)));
    return `${[head, ...rows.map(format)].join('\n')}\n`;
  }

  #paint(stream: { isTTY?: boolean }, code: string, text: string): string {
    const isPlain =
      stream.isTTY !== true ||
      (this.#environment['NO_COLOR'] ?? '') !== '' ||
      this.#environment['TERM'] === 'dumb';
    return isPlain ? text : `\u001B[${code}m${text}\u001B[0m`;
  }
}

/** Escapes control characters, which must not reach a terminal. */
function cellText(value: unknown, name: string): string {
  if (value === null || value === undefined) return '-';
  if (typeof value === 'number' && /(_at|^at|_AT|^AT|UPDATED|CREATED|SEEN|EXPIRES)$/.test(name))
    return new Date(value).toISOString();
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return text.replaceAll(
    // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
    /[\u0000-\u001F\u007F-\u009F]/g,
    (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}

/** `1536` → `1.5 KiB`. */
export function sizeText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [size, unit] = [bytes, 0];
  while (size >= 1024 && unit < units.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}
