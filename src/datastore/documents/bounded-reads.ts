/** Reads of documents by their keys that end when the values are too large for one answer. */
import { limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';
import type { DocumentRecord } from '../model.js';
import type { MaybePromise } from '../port.js';

type Found = (DocumentRecord | undefined)[];

/** The first request to a database reads at most this many documents of the maximum size. */
const documentsStepMin = 16;

/** The bytes of the values. Throws if one answer cannot have all of them. */
export function checkReadBytes(limits: Limits, read: readonly { readonly valueJson: string }[]): number {
  const sizeBytes = read.reduce((sum, document) => sum + bytesOf(document), 0);
  if (sizeBytes > limits.dataBatchBytesMax)
    throw limitError('too_large', {
      subject: 'The answer',
      unit: 'bytes of values',
      limit: 'dataBatchBytesMax',
      limits,
      advice: 'Read fewer keys at once',
    });
  return sizeBytes;
}

/** Up to the document with which the values exceed `bytesMax`. */
export function readUpTo(
  bytesMax: number,
  keys: readonly string[],
  read: (key: string) => DocumentRecord | undefined,
): Found {
  const found: Found = [];
  let left = bytesMax;
  for (const key of keys) {
    const document = read(key);
    found.push(document);
    left -= bytesOf(document);
    if (left < 0) break;
  }
  return found;
}

/** The same in several requests, for databases that answer a request as a whole. */
export async function readInSteps(
  bytesMax: number,
  keys: readonly string[],
  read: (keys: readonly string[]) => MaybePromise<Found>,
): Promise<Found> {
  const found: Found = [];
  let left = bytesMax;
  let largest = bytesMax;
  while (found.length < keys.length && left >= 0) {
    const step = Math.max(documentsStepMin, Math.floor(left / largest / 2));
    const next = await read(keys.slice(found.length, found.length + step));
    found.push(...next);
    const sizes = next.map(bytesOf);
    left -= sizes.reduce((sum, sizeBytes) => sum + sizeBytes, 0);
    largest = Math.max(1, ...sizes);
  }
  return found;
}

function bytesOf(document: { readonly valueJson: string } | undefined): number {
  return document === undefined ? 0 : Buffer.byteLength(document.valueJson);
}
