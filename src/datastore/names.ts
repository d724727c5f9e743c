/** The rules for keys, namespaces and agents' names. */
import { StoaError } from '../core/errors.js';
import { limitError } from '../core/settings/exceeds.js';
import type { LimitName, Limits } from '../core/settings/limits.js';
import { invalidCharacterIn } from '../core/text/invalid-character.js';

export function checkKey(key: string, limits: Limits): void {
  checkName('key', 'The key', key, 'dataKeyBytesMax', limits);
}

export function checkNamespace(namespace: string, limits: Limits): void {
  checkName('namespace', 'The namespace', namespace, 'namespaceBytesMax', limits);
}

/** A prefix may be empty, and may end in the middle of a name. */
export function checkPrefix(prefix: string, limits: Limits): void {
  if (prefix !== '') checkName('prefix', 'The prefix', prefix, 'dataKeyBytesMax', limits);
}

export function checkAgent(agent: string, limits: Limits): void {
  checkName('agent', 'The agent name', agent, 'agentHeaderBytesMax', limits);
}

function checkName(field: string, subject: string, text: unknown, limit: LimitName, limits: Limits): void {
  if (typeof text !== 'string') throw invalid(field, `${subject} is not a string.`);
  if (text === '') throw invalid(field, `${subject} is empty.`);
  // A code unit needs at most three bytes, so the bytes of a short text are not counted.
  const received = text.length * 3 <= limits[limit] ? text.length : Buffer.byteLength(text);
  if (received > limits[limit])
    throw limitError('invalid_request', {
      subject,
      unit: 'bytes',
      limit,
      limits,
      received,
      advice: 'Use a shorter name',
      details: { field },
    });
  const character = invalidCharacterIn(text);
  if (character !== undefined) throw invalid(field, `${subject} contains ${character}.`);
}

function invalid(field: string, sentence: string): StoaError {
  return new StoaError('invalid_request', sentence, { details: { field } });
}
