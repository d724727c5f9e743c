/** What is wrong with a field, in words that follow its name: `is missing`, `must be 1 or more, got 0`. */
import type { z } from 'zod';
import { groupedDigits } from '../text/grouped-digits.js';

/** The words for the types of a schema. */
const typeWords: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
};
/** The words for formats that have no message in their schema. */
const formatWords: Readonly<Record<string, string>> = {
  datetime: 'a time by ISO 8601, such as 2026-01-31T12:00:00Z',
  uuid: 'a UUID',
  url: 'a URL',
  email: 'an e-mail address',
};
/** The beginnings of the messages that the library makes. A schema may have a message of its own instead. */
const made = /^(?:Invalid (?:input|option|string|number|ISO|UUID|URL|email)|Too (?:small|big))/;
const valueCharactersMax = 40;

export function fieldComplaint(issue: z.core.$ZodIssue): string {
  if (!made.test(issue.message)) return issue.message;
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'is missing';
      return `must be ${typeWords[issue.expected] ?? issue.expected}, got ${typeOf(issue.input)}`;
    case 'invalid_value':
      if (issue.input === undefined) return 'is missing';
      return `must be ${oneOf(issue.values.map(String))}, got ${shown(issue.input)}`;
    case 'too_small':
      return size(issue.origin, issue.input, `${groupedDigits(issue.minimum)} or more`);
    case 'too_big':
      return size(issue.origin, issue.input, `${groupedDigits(issue.maximum)} or fewer`);
    case 'invalid_format':
      return formatWords[issue.format] === undefined
        ? issue.message
        : `must be ${formatWords[issue.format]}, got ${shown(issue.input)}`;
    case 'invalid_union':
      if (issue.input === undefined) return 'is missing';
      return 'has none of the accepted forms';
    default:
      return issue.message;
  }
}

/** `must have 1 or more characters, got 0`; for a number `must be 1 or more, got 0`. */
function size(origin: string, input: unknown, bound: string): string {
  if (typeof input === 'string')
    return `must have ${bound} characters, got ${groupedDigits([...input].length)}`;
  if (Array.isArray(input)) return `must have ${bound} items, got ${groupedDigits(input.length)}`;
  if (typeof input === 'number') return `must be ${bound.replace('fewer', 'less')}, got ${input}`;
  return `must have ${bound} ${origin === 'object' || origin === 'record' ? 'members' : 'items'}`;
}

function oneOf(values: readonly string[]): string {
  return values.join(', ').replace(/, ([^,]*)$/, ' or $1');
}

/** The type of a value, not the value itself, which may be a secret. */
function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return typeWords['array'] as string;
  return typeWords[typeof value] ?? typeof value;
}

/** A value where the schema expects one of a few words or a fixed format: never a secret. */
function shown(value: unknown): string {
  if (typeof value !== 'string') return typeof value === 'number' ? String(value) : typeOf(value);
  return JSON.stringify(value.length > valueCharactersMax ? `${value.slice(0, valueCharactersMax)}…` : value);
}
