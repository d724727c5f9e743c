/** One entry into a settings file of another program: everything else in it stays, to the letter where it can. */
import { StoaError, messageOf } from '../errors.js';
import { type JsonNode, type JsonObjectNode, readJsonText } from './json-text.js';

/** The file with `section.name` set to `entry`; no other character of it is touched. Refuses a file that it cannot read whole. */
export function mergeJson(
  text: string,
  section: string,
  name: string,
  entry: object,
  file = 'The file',
): string {
  if (text.trim() === '') return `${JSON.stringify({ [section]: { [name]: entry } }, null, 2)}\n`;
  const root = parsed(text, file);
  if (root.kind !== 'object') throw unreadable(file, 'it is not an object');
  const servers = memberOf(root, section);
  if (servers === undefined) return withMember(text, root, 1, section, { [name]: entry });
  if (servers.kind !== 'object') throw unreadable(file, `"${section}" is not an object`);
  const present = memberOf(servers, name);
  if (present === undefined) return withMember(text, servers, 2, name, entry);
  const value = rendered(text, 2, entry);
  return isSame(text.slice(present.start, present.end), entry)
    ? text
    : text.slice(0, present.start) + value + text.slice(present.end);
}

/** The same for TOML: the one table is replaced or added at the end. */
export function mergeToml(
  text: string,
  section: string,
  name: string,
  entry: object,
  file = 'The file',
): string {
  const table = tomlTable(section, name, entry);
  const lines = text.split('\n');
  refuseInline(lines, section, name, file);
  const header = new RegExp(`^\\s*\\[\\s*${section}\\s*\\.\\s*"?${name}"?\\s*\\]\\s*(#.*)?$`);
  const start = lines.findIndex((line) => header.test(line));
  if (start === -1) return `${text.trim() === '' ? '' : `${text.trimEnd()}\n\n`}${table}`;
  const length = lines.slice(start + 1).findIndex((line) => /^\s*\[/.test(line));
  const rest = length === -1 ? [] : ['', ...lines.slice(start + 1 + length)];
  return [
    ...lines.slice(0, start),
    ...table.trimEnd().split('\n'),
    ...(rest.length === 0 ? [''] : rest),
  ].join('\n');
}

/** A table that is written inside a line cannot be added to: a second one would break the file. */
function refuseInline(lines: readonly string[], section: string, name: string, file: string): void {
  let table = '';
  for (const line of lines) {
    table = /^\s*\[+\s*([^\]]*?)\s*\]/.exec(line)?.[1] ?? table;
    const key = /^\s*"?([\w-]+)"?\s*[.=]/.exec(line)?.[1];
    if ((table === '' && key === section) || (table === section && key === name))
      throw unreadable(file, `it has ${section} inside a line`, undefined, 'TOML with tables of their own');
  }
}

export function tomlTable(section: string, name: string, entry: object): string {
  // The basic strings and arrays of TOML are written as those of JSON.
  const lines = Object.entries(entry).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  return `[${section}.${name}]\n${lines.join('\n')}\n`;
}

/** Text between two marks: replaced where they are, added at the end where they are not. */
export function mergeMarked(text: string, [begin, end]: readonly [string, string], content: string): string {
  const block = `${begin}\n${content.trim()}\n${end}\n`;
  const start = text.indexOf(begin);
  const stop = text.indexOf(end, start);
  if (start === -1 || stop === -1) return `${text.trim() === '' ? '' : `${text.trimEnd()}\n\n`}${block}`;
  return `${text.slice(0, start)}${block}${text.slice(stop + end.length).replace(/^\n/, '')}`;
}

function parsed(text: string, file: string): JsonNode {
  try {
    return readJsonText(text);
  } catch (error) {
    throw unreadable(file, messageOf(error), error);
  }
}

/** Of several with one name the last counts, as for everybody who reads JSON. */
function memberOf(node: JsonObjectNode, name: string): JsonNode | undefined {
  return node.members.findLast((member) => member.name === name)?.value;
}

/** A new last member, on a line of its own. */
function withMember(text: string, node: JsonObjectNode, depth: number, name: string, value: object): string {
  const [inner, outer] = [depth, depth - 1].map((levels) => `\n${indentOf(text).repeat(levels)}`) as [
    string,
    string,
  ]; // map forgets how many there are.
  const member = `${inner}${JSON.stringify(name)}: ${rendered(text, depth, value)}`;
  const last = node.members.at(-1)?.value;
  if (last !== undefined) {
    const rest = text.slice(last.end, node.end);
    return `${text.slice(0, last.end)},${member}${rest.includes('\n') ? '' : outer}${text.slice(last.end)}`;
  }
  const comment = text.slice(node.start + 1, node.end - 1).trim();
  return `${text.slice(0, node.start + 1)}${comment === '' ? '' : inner + comment}${member}${outer}${text.slice(node.end - 1)}`;
}

function rendered(text: string, depth: number, value: object): string {
  const indent = indentOf(text);
  return JSON.stringify(value, null, indent).replaceAll('\n', `\n${indent.repeat(depth)}`);
}

/** Whether a part of the file says just this already. */
function isSame(part: string, entry: object): boolean {
  try {
    return JSON.stringify(JSON.parse(part)) === JSON.stringify(entry);
  } catch {
    // It has comments of its own, which go with the entry.
    return false;
  }
}

function unreadable(file: string, why: string, cause?: unknown, wanted = 'JSON'): StoaError {
  return new StoaError('invalid_request', `${file} is not ${wanted} (${why}), and was left as it is.`, {
    cause,
    fix: 'Run the command without --write and paste what it prints.',
  });
}

function indentOf(text: string): string {
  return /\n([ \t]+)"/.exec(text)?.[1] ?? '  ';
}
