/** Parses the bytes of a request body as JSON. It checks encoding and size, not content. */
import { isUtf8 } from 'node:buffer';
import { StoaError, jsonFaultOf } from '../../core/errors.js';
import { limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';
import { hasMoreValuesThan } from '../../core/text/json-values.js';
import { hasPrototypeKey } from '../../core/text/prototype-keys.js';

const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const openBracket = 0x5b;
const rareBracketsMax = 16;

/** Parses a body. The result for an empty body is undefined. */
export function parseJsonBody(bytes: Buffer, limits: Limits): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes))
    throw new StoaError('invalid_request', 'The body is not UTF-8.', { fix: 'Send the JSON in UTF-8.' });
  if (isDeeperThan(bytes, limits.jsonDepthMax))
    throw limitError('invalid_request', {
      subject: 'The nesting of the body',
      unit: 'levels',
      limit: 'jsonDepthMax',
      limits,
      advice: 'Nest fewer lists and objects inside each other',
    });
  if (hasMoreValuesThan(bytes, limits.jsonValuesMax))
    throw limitError('too_large', {
      subject: 'The body',
      unit: 'values',
      limit: 'jsonValuesMax',
      limits,
      advice: 'Send several requests',
    });
  const text = bytes.toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new StoaError('invalid_request', `The body is not JSON: ${jsonFaultOf(error)}.`);
  }
  if (hasPrototypeKey(text, value))
    throw new StoaError('invalid_request', 'The body has a field named "__proto__", which is not allowed.', {
      fix: 'Use another name.',
    });
  return value;
}

/**
 * Counts brackets outside of strings. A body with fewer brackets than the limit cannot be too deep, and most
 * have few.
 */
function isDeeperThan(bytes: Buffer, depthMax: number): boolean {
  if (bytes.length <= depthMax || hasAtMost(bytes, depthMax)) return false;
  let depth = 0;
  let inString = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    if (inString) {
      if (byte === backslash) at += 1;
      else if (byte === quote) inString = false;
      continue;
    }
    if (byte === quote) inString = true;
    // "[" and "{" differ in one bit only, and so do "]" and "}".
    else if ((byte & 0xdf) === 0x5b) {
      depth += 1;
      if (depth > depthMax) return true;
    } else if ((byte & 0xdf) === 0x5d) depth -= 1;
  }
  return false;
}

/** Whether at most this many brackets open, inside or outside of strings. */
function hasAtMost(bytes: Buffer, bracketsMax: number): boolean {
  let found = 0;
  for (const bracket of [openBrace, openBracket]) {
    for (let at = bytes.indexOf(bracket); at !== -1; at = bytes.indexOf(bracket, at + 1)) {
      found += 1;
      // Searching from bracket to bracket is fast only while brackets are rare.
      if (found > bracketsMax || found > rareBracketsMax) return false;
    }
  }
  return true;
}
