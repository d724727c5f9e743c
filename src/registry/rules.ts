/** What names, labels and messages may look like. */
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import type { AgentSpecRecord } from './model.js';

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/;

export function checkAgentName(name: string, limits: Limits): void {
  checkLine('name', name, 1, limits.agentNameCharactersMax);
}

export function checkLabels(labels: Record<string, string>, limits: Limits): void {
  const entries = Object.entries(labels);
  if (entries.length > limits.agentLabelsMax)
    throw invalid(
      'labels',
      `An agent has at most ${limits.agentLabelsMax} labels; these are ${entries.length}.`,
    );
  for (const [name, value] of entries) {
    checkLine(`labels.${name}`, name, 1, limits.labelCharactersMax);
    if (name.includes('=')) throw invalid(`labels.${name}`, 'The name of a label has no "=".');
    checkLine(`labels.${name}`, value, 0, limits.labelCharactersMax);
  }
}

export function checkSpec(spec: Partial<AgentSpecRecord>, limits: Limits): void {
  if (spec.runtime_version !== undefined)
    checkLine('spec.runtime_version', spec.runtime_version, 1, limits.runtimeVersionCharactersMax);
}

/** A message may have several lines. */
export function checkErrorMessage(message: string, limits: Limits): void {
  if (!message.isWellFormed()) throw invalid('error_message', 'Text has no lone surrogates.');
  if (characters(message) > limits.agentErrorCharactersMax)
    throw invalid(
      'error_message',
      `An error message has at most ${limits.agentErrorCharactersMax} characters.`,
    );
}

export function checkHolder(holder: string, limits: Limits): void {
  checkLine('holder', holder, 1, limits.leaseHolderBytesMax);
  if (Buffer.byteLength(holder) > limits.leaseHolderBytesMax)
    throw invalid('holder', `A holder has at most ${limits.leaseHolderBytesMax} bytes.`);
}

/** A user without an e-mail has the empty string. */
export function checkEmail(email: string, limits: Limits): void {
  if (email === '') return;
  if (Buffer.byteLength(email) > limits.emailBytesMax)
    throw invalid('email', `An e-mail address has at most ${limits.emailBytesMax} bytes.`);
  checkLine('email', email, 1, limits.emailBytesMax);
  if (!/^[^\s@]+@[^\s@]+$/u.test(email))
    throw invalid('email', 'An e-mail address is a name, "@" and a host.');
}

/** `name` or `name=value`, as a label could be. */
export function parseLabelFilter(text: string, limits: Limits): { name: string; value: string | null } {
  const at = text.indexOf('=');
  const label = at < 0 ? { name: text, value: null } : { name: text.slice(0, at), value: text.slice(at + 1) };
  checkLine('label', label.name, 1, limits.labelCharactersMax);
  if (label.value !== null) checkLine('label', label.value, 0, limits.labelCharactersMax);
  return label;
}

function checkLine(field: string, text: string, charactersMin: number, charactersMax: number): void {
  const length = characters(text);
  if (length < charactersMin || length > charactersMax)
    throw invalid(field, `It has ${charactersMin} to ${charactersMax} characters; this one has ${length}.`);
  if (controlCharacter.test(text)) throw invalid(field, 'It has no control characters.');
  if (!text.isWellFormed()) throw invalid(field, 'Text has no lone surrogates.');
}

/** Characters as people count them in a specification: code points, not UTF-16 units. */
function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

function invalid(field: string, sentence: string): StoaError {
  return new StoaError('invalid_request', `${field}: ${sentence}`, {
    details: { errors: [{ field, message: sentence }] },
  });
}
