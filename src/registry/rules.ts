/** The rules for names, labels and error messages. */
import { StoaError } from '../core/errors.js';
import { checkBytes, checkCharacters, checkCount } from '../core/settings/field-limits.js';
import type { LimitName, Limits } from '../core/settings/limits.js';
import { invalidCharacterIn, unstorableCharacterIn } from '../core/text/invalid-character.js';
import { hasIdForm } from './ids.js';
import type { AgentSpecRecord } from './model.js';

export function checkAgentName(name: string, limits: Limits): void {
  checkLine('name', name, 1, 'agentNameCharactersMax', limits);
  if (hasIdForm(name))
    throw invalid(
      'name',
      `"${name}" has the form of an id. Choose a name that cannot be mistaken for an id.`,
    );
}

export function checkLabels(labels: Record<string, string>, limits: Limits): void {
  const entries = Object.entries(labels);
  checkCount('labels', entries.length, 'labels', 'agentLabelsMax', limits);
  for (const [name, value] of entries) {
    checkLine(`labels.${name}`, name, 1, 'labelCharactersMax', limits);
    if (name.includes('=')) throw invalid(`labels.${name}`, `The label name "${name}" contains "=".`);
    checkLine(`labels.${name}`, value, 0, 'labelCharactersMax', limits);
  }
}

export function checkSpec(spec: Partial<AgentSpecRecord>, limits: Limits): void {
  if (spec.runtime_version !== undefined)
    checkLine('spec.runtime_version', spec.runtime_version, 1, 'runtimeVersionCharactersMax', limits);
}

/** A message may have several lines. */
export function checkErrorMessage(message: string, limits: Limits): void {
  const character = unstorableCharacterIn(message);
  if (character !== undefined) throw invalid('error_message', `The text contains ${character}.`);
  checkCharacters('error_message', message, 'agentErrorCharactersMax', limits);
}

export function checkHolder(holder: string, limits: Limits): void {
  checkLine('holder', holder, 1, 'leaseHolderBytesMax', limits);
  checkBytes('holder', holder, 'leaseHolderBytesMax', limits);
}

/** A user without an e-mail has the empty string. */
export function checkEmail(email: string, limits: Limits): void {
  if (email === '') return;
  checkBytes('email', email, 'emailBytesMax', limits);
  checkLine('email', email, 1, 'emailBytesMax', limits);
  if (!/^[^\s@]+@[^\s@]+$/u.test(email))
    throw invalid('email', `The e-mail address "${email}" is invalid. Expected a name, "@" and a host.`);
}

/** `name` or `name=value`, as a label could be. */
export function parseLabelFilter(text: string, limits: Limits): { name: string; value: string | null } {
  const at = text.indexOf('=');
  const label = at < 0 ? { name: text, value: null } : { name: text.slice(0, at), value: text.slice(at + 1) };
  checkLine('label', label.name, 1, 'labelCharactersMax', limits);
  if (label.value !== null) checkLine('label', label.value, 0, 'labelCharactersMax', limits);
  return label;
}

function checkLine(
  field: string,
  text: string,
  charactersMin: 0 | 1,
  limit: LimitName,
  limits: Limits,
): void {
  if (text.length < charactersMin) throw invalid(field, 'The text is empty.');
  checkCharacters(field, text, limit, limits);
  const character = invalidCharacterIn(text);
  if (character !== undefined) throw invalid(field, `The text contains ${character}.`);
}

function invalid(field: string, sentence: string): StoaError {
  return new StoaError('invalid_request', `${field}: ${sentence}`, {
    details: { errors: [{ field, message: sentence }] },
  });
}
