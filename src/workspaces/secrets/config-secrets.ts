/** Secrets inside a project's config: which texts they are, and how they are sealed, masked and kept. */
import { StoaError } from '../../core/errors.js';
import { type Sealer, secretMask } from '../../secrets/sealer.js';
import type { JsonObject, JsonValue } from '../model.js';
import { holdsUrlPassword } from './url-passwords.js';

/** An encrypted string is stored in the config as `{"$sealed": "enc:…"}`. */
const sealedName = '$sealed';
const secretName = /key|token|secret|passw|passphrase|pwd|credential|authorization|bearer|cookie|jwt/i;

interface Sealed extends JsonObject {
  [sealedName]: string;
}

/** The config with its secrets encrypted. Masks stay unchanged; `keepMasked` fills them in. */
export function sealConfig(config: JsonObject, projectId: string, sealer: Sealer): JsonObject {
  return mapTexts(config, (text, isSecret) => {
    if (text === secretMask || !(isSecret || holdsUrlPassword(text))) return text;
    return { [sealedName]: sealer.seal(text, projectId) };
  });
}

/** What answers show. */
export function maskConfig(config: JsonObject): JsonObject {
  return mapTexts(
    config,
    (text) => text,
    () => secretMask,
  );
}

/** The plain config, for the library only. */
export function openConfig(config: JsonObject, projectId: string, sealer: Sealer): JsonObject {
  return mapTexts(
    config,
    (text) => text,
    (sealed) => sealer.open(sealed[sealedName], projectId),
  );
}

/** The config under the current key; the same object if all secrets have the current key. */
export function resealConfig(config: JsonObject, projectId: string, sealer: Sealer): JsonObject {
  let changed = false;
  const fresh = mapTexts(
    config,
    (text) => text,
    (sealed) => {
      const text = sealer.reseal(sealed[sealedName], projectId);
      changed ||= text !== sealed[sealedName];
      return { [sealedName]: text };
    },
  );
  return changed ? fresh : config;
}

/** Fills the masks that a caller sent back with the secrets that are stored in the same places. */
export function keepMasked(next: JsonObject, stored: JsonObject): JsonObject {
  return mapTexts(next, (text, isSecret, path) => {
    if (text !== secretMask) return text;
    const kept = path.reduce<JsonValue | undefined>((value, name) => memberOf(value, name), stored);
    if (isSealed(kept)) return kept;
    // Outside a secret field the mask is an ordinary string.
    if (!isSecret) return text;
    throw new StoaError(
      'invalid_request',
      `config.${path.join('.')} is a mask, but no secret is stored there.`,
      { fix: 'Send the secret itself.', details: { field: `config.${path.join('.')}` } },
    );
  });
}

/** The config without its secrets, for an export that must not contain them. */
export function withoutSecrets(config: JsonObject): JsonObject {
  const kept = Object.entries(config).filter(([, value]) => !isSealed(value));
  return Object.fromEntries(kept.map(([name, value]) => [name, stripped(value)]));
}

function stripped(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.filter((item) => !isSealed(item)).map(stripped);
  return isObject(value) ? withoutSecrets(value) : value;
}

/** Puts the stored secrets back where an export left them out. */
export function withStoredSecrets(next: JsonObject, stored: JsonObject): JsonObject {
  const merged: JsonObject = { ...next };
  for (const [name, value] of Object.entries(stored)) {
    const given = merged[name];
    if (isSealed(value)) merged[name] = given ?? value;
    else if (isObject(value) && isObject(given)) merged[name] = withStoredSecrets(given, value);
  }
  return merged;
}

/**
 * Callers cannot send a value that looks encrypted. Values under `secrets` must be strings: others
 * would be stored without encryption.
 */
export function checkConfig(config: JsonObject): void {
  const bare = bareSecret(config, [], false);
  if (bare !== undefined)
    throw new StoaError('invalid_request', `config.${bare} is under "secrets" but is not a string.`, {
      fix: 'Write the value as a string, in quotes.',
      details: { field: `config.${bare}` },
    });
  if (holdsSealedName(config))
    throw new StoaError('invalid_request', `config contains the reserved name "${sealedName}".`, {
      details: { field: 'config' },
    });
}

/** The path of a number or boolean under `secrets`. */
function bareSecret(value: JsonValue, path: readonly string[], isHidden: boolean): string | undefined {
  if (typeof value !== 'object' || value === null)
    return isHidden && value !== null && typeof value !== 'string' ? path.join('.') : undefined;
  for (const [name, member] of Object.entries(value)) {
    const found = bareSecret(member, [...path, name], isHidden || name === 'secrets');
    if (found !== undefined) return found;
  }
  return undefined;
}

function holdsSealedName(value: JsonValue): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(([name, member]) => name === sealedName || holdsSealedName(member));
}

type OnText = (text: string, isSecret: boolean, path: readonly string[]) => JsonValue;
type OnSealed = (sealed: Sealed) => JsonValue;

/** Walks the config. A string is a secret by its own name or by the name of an object around it. */
function mapTexts(config: JsonObject, onText: OnText, onSealed: OnSealed = (sealed) => sealed): JsonObject {
  const walk = (value: JsonValue, path: readonly string[], isSecret: boolean): JsonValue => {
    if (typeof value === 'string') return onText(value, isSecret, path);
    if (Array.isArray(value))
      return value.map((item, index) => walk(item, [...path, String(index)], isSecret));
    if (!isObject(value)) return value;
    if (isSealed(value)) return onSealed(value);
    return walkObject(value, path, isSecret);
  };
  const walkObject = (object: JsonObject, path: readonly string[], isSecret: boolean): JsonObject =>
    Object.fromEntries(
      Object.entries(object).map(([name, value]) => [
        name,
        walk(value, [...path, name], isSecret || secretName.test(name)),
      ]),
    );
  return walkObject(config, [], false);
}

function memberOf(value: JsonValue | undefined, name: string): JsonValue | undefined {
  if (Array.isArray(value)) return value[Number(name)];
  return isObject(value) ? value[name] : undefined;
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isSealed(value: JsonValue | undefined): value is Sealed {
  return isObject(value) && typeof value[sealedName] === 'string';
}
