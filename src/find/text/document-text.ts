/** The text of a document: its key in parts, its titles, and every string of its value with its path. */
import type { EntryText } from '../model.js';
import { LimitedText } from './limited-text.js';

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** Strings at the top of a value or of its metadata that are titles. */
const titleNames: ReadonlySet<string> = new Set(['title', 'name', 'subject']);
/** Other metadata that is searched. The rest is for programs. */
const metadataNames: ReadonlySet<string> = new Set([
  'description',
  'summary',
  'tags',
  'labels',
  'category',
  'topic',
]);
/** Names that hold secrets. Their values are never indexed, at any depth. */
const secretName =
  /(?:^|[_\-.\s])(?:password|passwd|passphrase|secret|token|(?:api|private|access|secret|signing|encryption|ssh|claude)[_-]?key|credentials?|authorization)$/i;
const camelSecret =
  /(?:Password|Passphrase|Secret|Token|(?:Api|Private|Access|Secret|Signing|Encryption|Ssh|Claude)Key|Credentials?)$|^(?:api|private|access|secret|signing|encryption|ssh|claude)Key$/;

export interface IndexedDocument {
  readonly key: string;
  readonly valueJson: string;
  readonly metadata: { readonly [name: string]: Json };
}

export function documentText({ key, valueJson, metadata }: IndexedDocument): EntryText {
  const text = new LimitedText();
  text.addTitle(key);
  const value = JSON.parse(valueJson) as Json;
  for (const source of [metadata, value]) if (isObject(source)) addTitles(text, source);
  for (const [name, member] of Object.entries(metadata))
    if (metadataNames.has(name)) addStrings(text, member);
  addStrings(text, value, { isTop: true });
  return text;
}

/** Whether a member of this name may hold a secret. */
export function isSecretName(name: string): boolean {
  return secretName.test(name) || camelSecret.test(name);
}

function addTitles(text: LimitedText, object: { readonly [name: string]: Json }): void {
  for (const [name, member] of Object.entries(object))
    if (titleNames.has(name) && typeof member === 'string') text.addTitle(member);
}

/** Walks without recursion, in the order of the text. Each name on the way to a string is indexed once. */
function addStrings(text: LimitedText, value: Json, { isTop = false } = {}): void {
  const named = new Set<string>();
  const waiting: { value: Json; path: string }[] = [{ value, path: '' }];
  for (let next = waiting.pop(); next !== undefined && !text.isFull; next = waiting.pop()) {
    const { value: current, path } = next;
    if (typeof current === 'string') {
      if (path !== '' && !named.has(path)) {
        named.add(path);
        text.addBody(path);
      }
      text.addBody(current);
    } else if (Array.isArray(current)) {
      for (let at = current.length - 1; at >= 0; at -= 1) waiting.push({ value: current[at] as Json, path });
    } else if (isObject(current)) {
      const members = Object.entries(current);
      for (let at = members.length - 1; at >= 0; at -= 1) {
        const [name, member] = members[at] as [string, Json];
        if (isSecretName(name)) continue;
        // Titles are in their own field already.
        if (isTop && path === '' && titleNames.has(name) && typeof member === 'string') continue;
        waiting.push({ value: member, path: path === '' ? name : `${path} ${name}` });
      }
    }
  }
}

function isObject(value: Json): value is { readonly [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
