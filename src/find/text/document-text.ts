/** The text of a document: its key in parts, its titles, and every string of its value with its path. */
import type { EntryText } from '../model.js';
import { LimitedText } from './limited-text.js';
import { isSecretName, mayNameSecret } from './secret-names.js';

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
  addStrings(text, value, { hasTitles: isObject(value), isNamed: key.split('/').some(mayNameSecret) });
  return text;
}

/** A text of several words is a note about a secret: `faq/reset-password`. */
function isOneWord(text: string): boolean {
  return !/\S\s+\S/.test(text);
}

/** `{"name": "DB_PASSWORD", "value": …}`, as lists of settings have it. */
function namesSecret({ name, key }: { readonly [name: string]: Json }): boolean {
  return [name, key].some((label) => typeof label === 'string' && isOneWord(label) && mayNameSecret(label));
}

function addTitles(text: LimitedText, object: { readonly [name: string]: Json }): void {
  for (const [name, member] of Object.entries(object))
    if (titleNames.has(name) && typeof member === 'string') text.addTitle(member);
}

/**
 * Walks without recursion, in the order of the text. Each name on the way to a string is indexed once. `isNamed`: a
 * name above may be that of a secret, so single words are left out.
 */
function addStrings(text: LimitedText, value: Json, { hasTitles = false, isNamed = false } = {}): void {
  const named = new Set<string>();
  const waiting = [{ value, path: '', isNamed }];
  for (let next = waiting.pop(); next !== undefined && !text.isFull; next = waiting.pop()) {
    const { value: current, path } = next;
    if (typeof current === 'string') {
      if (next.isNamed && isOneWord(current)) continue;
      if (path !== '' && !named.has(path)) {
        named.add(path);
        text.addBody(path);
      }
      text.addBody(current);
    } else if (Array.isArray(current)) {
      for (let at = current.length - 1; at >= 0; at -= 1)
        waiting.push({ ...next, value: current[at] as Json });
    } else if (isObject(current)) {
      const members = Object.entries(current);
      const isNamedHere = next.isNamed || namesSecret(current);
      for (let at = members.length - 1; at >= 0; at -= 1) {
        const [name, member] = members[at] as [string, Json];
        if (isSecretName(name)) continue;
        // Titles are in their own field already.
        if (hasTitles && path === '' && titleNames.has(name) && typeof member === 'string') continue;
        waiting.push({
          value: member,
          path: path === '' ? name : `${path} ${name}`,
          isNamed: isNamedHere || mayNameSecret(name),
        });
      }
    }
  }
}

function isObject(value: Json): value is { readonly [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
