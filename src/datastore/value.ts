/** What may be stored: JSON and nothing else. Every refusal says what it found and where. */
import { StoaError } from '../errors.js';
import type { Limits } from '../limits.js';
import type { JsonObject } from './model.js';

/** The JSON text of a value, or a refusal that names the place of what JSON cannot hold. */
export function valueJson(value: unknown, limits: Limits): string {
  checkJson(value, 'value', limits.valueDepthMax, []);
  const text = JSON.stringify(value);
  const sizeBytes = Buffer.byteLength(text);
  if (sizeBytes > limits.valueBytesMax) {
    throw new StoaError('too_large', `A value has at most ${limits.valueBytesMax} bytes of JSON; this one has ${sizeBytes}.`, {
      fix: 'Split the value over several keys, or raise the limit valueBytesMax.',
      details: { field: 'value', sizeBytes, valueBytesMax: limits.valueBytesMax },
    });
  }
  return text;
}

/** Metadata: a JSON object within its own limit. */
export function checkMetadata(metadata: unknown, limits: Limits): JsonObject {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) throw refusal('metadata', 'is not an object');
  checkJson(metadata, 'metadata', limits.valueDepthMax, []);
  checkMetadataSize(metadata as JsonObject, limits);
  return metadata as JsonObject;
}

/** The merged metadata is held to the limit as well as what was given. */
export function checkMetadataSize(metadata: JsonObject, limits: Limits): void {
  const sizeBytes = Buffer.byteLength(JSON.stringify(metadata));
  if (sizeBytes <= limits.metadataBytesMax) return;
  throw new StoaError('too_large', `Metadata has at most ${limits.metadataBytesMax} bytes of JSON; this has ${sizeBytes}.`, {
    details: { field: 'metadata', sizeBytes, metadataBytesMax: limits.metadataBytesMax },
  });
}

/** `ancestors` are the objects around the value: meeting one of them again is a circle. */
function checkJson(value: unknown, path: string, depthLeft: number, ancestors: object[]): void {
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw refusal(path, 'has a lone surrogate');
      return;
    case 'boolean':
      return;
    case 'number':
      if (!Number.isFinite(value)) throw refusal(path, `is ${value}`);
      return;
    case 'object':
      if (value !== null) checkObject(value, path, depthLeft, ancestors);
      return;
    case 'undefined':
      throw refusal(path, 'is undefined');
    default:
      throw refusal(path, `is a ${typeof value}`);
  }
}

function checkObject(value: object, path: string, depthLeft: number, ancestors: object[]): void {
  if (ancestors.includes(value)) throw refusal(path, 'is a circular reference');
  if (depthLeft === 0) throw refusal(path, 'is nested too deeply');
  ancestors.push(value);
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) checkJson(value[index], `${path}[${index}]`, depthLeft - 1, ancestors);
  } else {
    checkPlain(value, path);
    for (const name of Object.keys(value)) {
      if (!name.isWellFormed()) throw refusal(path, 'has a lone surrogate in a name');
      checkJson((value as Record<string, unknown>)[name], `${path}.${name}`, depthLeft - 1, ancestors);
    }
  }
  ancestors.pop();
}

function checkPlain(value: object, path: string): void {
  const prototype: unknown = Object.getPrototypeOf(value);
  // Objects of another realm (a vm context, a test runner) have another Object.prototype, which has no prototype either.
  if (prototype !== null && prototype !== Object.prototype && Object.getPrototypeOf(prototype) !== null) {
    throw refusal(path, describe(value));
  }
  if (Object.getOwnPropertySymbols(value).length > 0) throw refusal(path, 'has a symbol as a name');
}

function describe(value: object): string {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return 'is binary; store it as base64 text';
  return `is an instance of ${value.constructor?.name ?? 'a class'}; store plain objects`;
}

function refusal(path: string, found: string): StoaError {
  const place = path.length > 200 ? `${path.slice(0, 200)}…` : path;
  return new StoaError('invalid_request', `Only JSON can be stored: ${place} ${found}.`, { details: { field: place } });
}
