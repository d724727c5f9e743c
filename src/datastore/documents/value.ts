/** What may be stored: JSON within its limits. */
import { limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';
import { jsonText, notJson } from './json.js';
import type { JsonObject } from '../model.js';

/** The JSON text of a value. Throws an error that names the path of a part that is not JSON. */
export function valueJson(value: unknown, limits: Limits): string {
  const text = jsonText(value, 'value', limits.valueDepthMax);
  // A code unit needs at most three bytes, so the bytes of a short text are not counted.
  if (text.length * 3 <= limits.valueBytesMax) return text;
  const sizeBytes = Buffer.byteLength(text);
  if (sizeBytes > limits.valueBytesMax) {
    throw limitError('too_large', {
      subject: 'The value',
      unit: 'bytes of JSON',
      limit: 'valueBytesMax',
      limits,
      received: sizeBytes,
      advice: 'Split the value over several keys',
      details: { field: 'value', sizeBytes },
    });
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

/** The limit applies to the merged metadata as well as to the metadata of the request. */
export function checkMetadataSize(metadata: JsonObject, limits: Limits): void {
  const sizeBytes = Buffer.byteLength(JSON.stringify(metadata));
  if (sizeBytes <= limits.metadataBytesMax) return;
  throw limitError('too_large', {
    subject: 'The metadata',
    unit: 'bytes of JSON',
    limit: 'metadataBytesMax',
    limits,
    received: sizeBytes,
    advice: 'Store large metadata as a separate document',
    details: { field: 'metadata', sizeBytes },
  });
}
