/** The rules for keys, namespaces and agents' names. */
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/;

export function checkKey(key: string, limits: Limits): void {
  checkName('key', 'A key', key, limits.dataKeyBytesMax);
}

export function checkNamespace(namespace: string, limits: Limits): void {
  checkName('namespace', 'A namespace', namespace, limits.namespaceBytesMax);
}

/** A prefix may be empty, and may end in the middle of a name. */
export function checkPrefix(prefix: string, limits: Limits): void {
  if (prefix !== '') checkName('prefix', 'A prefix', prefix, limits.dataKeyBytesMax);
}

export function checkAgent(agent: string, limits: Limits): void {
  checkName('agent', "An agent's name", agent, limits.agentHeaderBytesMax);
}

function checkName(field: string, subject: string, text: unknown, bytesMax: number): void {
  if (typeof text !== 'string')
    throw new StoaError('invalid_request', `${subject} is text.`, { details: { field } });
  // A character has at most three bytes a code unit, so short texts need no counting.
  const bytes = text.length * 3 <= bytesMax ? text.length : Buffer.byteLength(text);
  if (bytes < 1 || bytes > bytesMax) {
    throw new StoaError(
      'invalid_request',
      `${subject} has 1 to ${bytesMax} bytes of UTF-8; this one has ${bytes}.`,
      { details: { field, bytesMax } },
    );
  }
  if (controlCharacter.test(text))
    throw new StoaError('invalid_request', `${subject} has no control characters.`, { details: { field } });
  if (!text.isWellFormed()) {
    // Encoding it would turn it into U+FFFD, and two names would become one.
    throw new StoaError('invalid_request', `${subject} has no lone surrogates.`, { details: { field } });
  }
}
