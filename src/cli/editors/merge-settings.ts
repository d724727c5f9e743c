/**
 * Adds one entry to the settings file of another program and keeps everything else, including its format
 * where possible.
 */
import { isDeepStrictEqual } from 'node:util';
import { type ParseError, applyEdits, modify, parse, printParseErrorCode } from 'jsonc-parser';
import { StoaError } from '../../core/errors.js';

/**
 * The file with `section.name` set to `entry`. Everything else is kept. Refuses a file that is not JSON with
 * comments.
 */
export function mergeJson(
  text: string,
  section: string,
  name: string,
  entry: object,
  file = 'The file',
): string {
  if (text.trim() === '') return `${JSON.stringify({ [section]: { [name]: entry } }, null, 2)}\n`;
  const root = readJson(text, file);
  const servers = root[section];
  if (servers !== undefined && !isObject(servers)) throw unreadable(file, `"${section}" is not an object`);
  if (isDeepStrictEqual(servers?.[name], entry)) return text;
  return edited(text, [section, name], entry);
}

/** The text with another value at a path, indented as the rest of the file. */
export function edited(text: string, path: string[], value: unknown): string {
  const indent = /\n([ \t]+)"/.exec(text)?.[1] ?? '  ';
  const formattingOptions = {
    insertSpaces: !indent.startsWith('\t'),
    tabSize: indent.startsWith('\t') ? 1 : indent.length,
    eol: '\n',
  };
  return applyEdits(text, modify(text, path, value, { formattingOptions }));
}

export function readJson(text: string, file: string): Record<string, unknown> {
  const errors: ParseError[] = [];
  const root: unknown = parse(text, errors, { allowTrailingComma: true });
  const [first] = errors;
  if (first !== undefined) {
    const line = text.slice(0, first.offset).split('\n').length;
    throw unreadable(file, `${printParseErrorCode(first.error)} in line ${line}`);
  }
  if (!isObject(root)) throw unreadable(file, 'it is not an object');
  return root;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** As `mergeJson`, for TOML: the table is replaced, or added at the end. */
export function mergeToml(
  text: string,
  section: string,
  name: string,
  entry: object,
  file = 'The file',
): string {
  const table = tomlTable(section, name, entry);
  refuseInline(text.split('\n'), section, name, file);
  const around = aroundTable(text, section, name);
  if (around === undefined) return `${text.trim() === '' ? '' : `${text.trimEnd()}\n\n`}${table}`;
  const { before, after } = around;
  return [...before, ...table.trimEnd().split('\n'), '', ...after].join('\n');
}

/** The lines before and after a table; undefined if the file does not have it. */
function aroundTable(
  text: string,
  section: string,
  name: string,
): { before: string[]; after: string[] } | undefined {
  const lines = text.split('\n');
  const header = new RegExp(`^\\s*\\[\\s*${section}\\s*\\.\\s*"?${name}"?\\s*\\]\\s*(#.*)?$`);
  const start = lines.findIndex((line) => header.test(line));
  if (start === -1) return undefined;
  const length = lines.slice(start + 1).findIndex((line) => /^\s*\[/.test(line));
  return { before: lines.slice(0, start), after: length === -1 ? [] : lines.slice(start + 1 + length) };
}

/** An inline table cannot be extended: a second table with its name would break the file. */
function refuseInline(lines: readonly string[], section: string, name: string, file: string): void {
  let table = '';
  for (const line of lines) {
    table = /^\s*\[+\s*([^\]]*?)\s*\]/.exec(line)?.[1] ?? table;
    const key = /^\s*"?([\w-]+)"?\s*[.=]/.exec(line)?.[1];
    if ((table === '' && key === section) || (table === section && key === name))
      throw unreadable(file, `it has ${section} as an inline table`, 'TOML with separate tables');
  }
}

export function tomlTable(section: string, name: string, entry: object): string {
  // The basic strings and arrays of TOML have the syntax of JSON.
  const lines = Object.entries(entry).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  return `[${section}.${name}]\n${lines.join('\n')}\n`;
}

/** The file without `section.name`. A section that is empty then stays. */
export function removeJson(text: string, section: string, name: string, file = 'The file'): string {
  if (text.trim() === '') return text;
  const servers = readJson(text, file)[section];
  if (!isObject(servers) || !(name in servers)) return text;
  return edited(text, [section, name], undefined);
}

export function removeToml(text: string, section: string, name: string): string {
  const around = aroundTable(text, section, name);
  return around === undefined ? text : [...around.before, ...around.after].join('\n');
}

/** The text without the marks and what is between them. */
export function removeMarked(text: string, [begin, end]: readonly [string, string]): string {
  const start = text.indexOf(begin);
  const stop = text.indexOf(end, start);
  if (start === -1 || stop === -1) return text;
  const before = text.slice(0, start).trimEnd();
  const after = text.slice(stop + end.length).trimStart();
  return [before, after].filter((part) => part !== '').join('\n\n') + (before + after === '' ? '' : '\n');
}

/** Text between two marks: replaced if the marks exist, otherwise added at the end. */
export function mergeMarked(text: string, [begin, end]: readonly [string, string], content: string): string {
  const block = `${begin}\n${content.trim()}\n${end}\n`;
  const start = text.indexOf(begin);
  const stop = text.indexOf(end, start);
  if (start === -1 || stop === -1) return `${text.trim() === '' ? '' : `${text.trimEnd()}\n\n`}${block}`;
  return `${text.slice(0, start)}${block}${text.slice(stop + end.length).replace(/^\n/, '')}`;
}

export function unreadable(file: string, why: string, wanted = 'JSON'): StoaError {
  return new StoaError('invalid_request', `${file} is not ${wanted} (${why}). The file was not changed.`, {
    fix: 'Run the command without --write and paste its output.',
  });
}
