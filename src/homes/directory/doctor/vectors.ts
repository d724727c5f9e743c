/**
 * What `stoa doctor` checks of vectors: each has a document, and each document of such a namespace has one or
 * waits.
 */
import { messageOf } from '../../../core/errors.js';
import { dataFamilies, decodeDocument, isLiveRow } from '../datastore/rows.js';
import { decodeSettings, readSettings } from '../datastore/settings.js';
import {
  decodeHead,
  decodeNumbers,
  vectorFamilies as families,
  waitForVector,
} from '../find/vectors/rows.js';
import type { Entry } from '../kernel/engine.js';
import { type Check, type Damage, missingRow, surplusRow } from '../kernel/inspect/doctor.js';
import type { Store } from '../kernel/store.js';
import type { Reader } from '../kernel/transaction.js';

export const vectorChecks: Check[] = [
  { family: dataFamilies.settings, inspect: inspectSettings },
  { family: dataFamilies.documents, inspect: inspectDocument },
  { family: families.waiting, inspect: inspectWaiting },
  { family: families.vectors, inspect: inspectVector },
];

function* inspectSettings(_reader: Reader, { key, value }: Entry): Generator<Damage> {
  const complaint = complaintAbout(() => decodeSettings(value));
  if (complaint !== undefined)
    yield surplusRow(
      dataFamilies.settings,
      key,
      'wrong',
      `The settings of a namespace cannot be read: ${complaint}.`,
    );
}

function* inspectDocument(reader: Reader, { key, value }: Entry, store: Store): Generator<Damage> {
  const namespace = key.subarray(0, key.indexOf(0, 32));
  if (reader.get(dataFamilies.settings, namespace) === undefined) return;
  // Rows that cannot be read are found by the checks of their own families.
  let isEmbedded = false;
  const complaint = complaintAbout(() => {
    const isFound = isLiveRow(value, store.nowMs()) && decodeDocument(key, value, '').indexed !== false;
    isEmbedded = isFound && readSettings(reader, namespace).embed;
  });
  if (complaint !== undefined || !isEmbedded) return;
  const note = Buffer.concat([namespace, Buffer.of(0)]);
  for (const waiting of [key, note]) if (reader.get(families.waiting, waiting) !== undefined) return;
  if (reader.get(families.vectors, key) === undefined)
    yield missingRow(families.waiting, key, 'A document has no vector and does not wait for one.', (tx) =>
      waitForVector(tx, key),
    );
}

function* inspectWaiting(reader: Reader, { key }: Entry): Generator<Damage> {
  // The note of a whole namespace has an empty key.
  if (key.at(-1) !== 0 && reader.get(dataFamilies.documents, key) === undefined)
    yield surplusRow(families.waiting, key, 'dangling', 'A document that does not exist waits for a vector.');
}

function* inspectVector(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const complaint = complaintAbout(() => [decodeHead(value), decodeNumbers(value)]);
  if (complaint !== undefined)
    yield surplusRow(families.vectors, key, 'wrong', `A vector cannot be read: ${complaint}.`);
  else if (reader.get(dataFamilies.documents, key) === undefined)
    yield surplusRow(
      families.vectors,
      key,
      'dangling',
      'A vector belongs to a document that does not exist.',
    );
}

function complaintAbout(read: () => unknown): string | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
