/** What may be stored: JSON within its limits. */
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import { jsonText, notJson } from './json.js';
import type { JsonObject } from './model.js';

/** The JSON text of a value, or a refusal that names the place of what JSON cannot hold. */
export function valueJson(value: unknown, limits: Limits): string {
  const text = jsonText(value, 'value', limits.valueDepthMax);
  // A character has at most three bytes a code unit, so short texts need no counting.
  if (text.length * 3 <= limits.valueBytesMax) return text;
  const sizeBytes = Buffer.byteLength(text);
  if (sizeBytes > limits.valueBytesMax) {
    throw new StoaError(
      'too_large',
      `A value has at most ${limits.valueBytesMax} bytes of JSON; this one has ${sizeBytes}.`,
      {
        fix: 'Split the value over several keys, or raise the limit valueBytesMax.',
        details: { field: 'value', sizeBytes, valueBytesMax: limits.valueBytesMax },
      },
    );
  }
  return text;
}

/** Metadata: a JSON object within its own limit. */
export function checkMetadata(metadata: unknown, limits: Limits): JsonObject {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata))
    throw notJson('metadata', 'is not an object');
  jsonText(metadata, 'metadata', limits.valueDepthMax);
  checkMetadataSize(metadata as JsonObject, limits);
  return metadata as JsonObject;
}

/** The merged metadata is held to the limit as well as what was given. */
export function checkMetadataSize(metadata: JsonObject, limits: Limits): void {
  const sizeBytes = Buffer.byteLength(JSON.stringify(metadata));
  if (sizeBytes <= limits.metadataBytesMax) return;
  throw new StoaError(
    'too_large',
    `Metadata has at most ${limits.metadataBytesMax} bytes of JSON; this has ${sizeBytes}.`,
    {
      details: { field: 'metadata', sizeBytes, metadataBytesMax: limits.metadataBytesMax },
    },
  );
}
