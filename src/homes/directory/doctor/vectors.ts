/**
 * What `stoa doctor` checks of vectors: each has a document, and each document of such a namespace has one or
 * waits.
 */
import { dataFamilies, decodeDocument, isLiveRow } from '../datastore/rows.js';
import { decodeSettings, readSettings } from '../datastore/settings.js';
import {
  decodeHead,
  decodeNumbers,
  vectorFamilies as families,
  waitForVector,
} from '../find/vectors/rows.js';
import { type Damage, type ExaminedRow, missingRow } from '../kernel/inspect/damage.js';
import type { Check } from '../kernel/inspect/doctor.js';
import { readable } from './indexes.js';

export const vectorChecks: Check[] = [
  { family: dataFamilies.settings, inspect: inspectSettings },
  { family: dataFamilies.documents, inspect: inspectDocument },
  { family: families.waiting, inspect: inspectWaiting },
  { family: families.vectors, inspect: inspectVector },
];

function* inspectSettings(row: ExaminedRow): Generator<Damage> {
  if (readable(() => decodeSettings(row.value)) === undefined)
    yield row.surplus('The settings of a namespace cannot be read.');
}

function* inspectDocument({ reader, store, key, value }: ExaminedRow): Generator<Damage> {
  const namespace = key.subarray(0, key.indexOf(0, 32));
  if (reader.get(dataFamilies.settings, namespace) === undefined) return;
  // Rows that cannot be read are found by the checks of their own families.
  const isEmbedded = readable(
    () =>
      isLiveRow(value, store.nowMs()) &&
      decodeDocument(key, value, '').indexed !== false &&
      readSettings(reader, namespace).embed,
  );
  if (isEmbedded !== true) return;
  const note = Buffer.concat([namespace, Buffer.of(0)]);
  for (const waiting of [key, note]) if (reader.get(families.waiting, waiting) !== undefined) return;
  if (reader.get(families.vectors, key) === undefined)
    yield missingRow(families.waiting, key, 'A document has no vector and does not wait for one.', (tx) =>
      waitForVector(tx, key),
    );
}

function* inspectWaiting(row: ExaminedRow): Generator<Damage> {
  // The note of a whole namespace has an empty key.
  if (row.key.at(-1) !== 0 && row.reader.get(dataFamilies.documents, row.key) === undefined)
    yield row.dangling('A document that does not exist waits for a vector.');
}

function* inspectVector(row: ExaminedRow): Generator<Damage> {
  if (readable(() => [decodeHead(row.value), decodeNumbers(row.value)]) === undefined)
    yield row.surplus('A vector cannot be read.');
  else if (row.reader.get(dataFamilies.documents, row.key) === undefined)
    yield row.dangling('A vector belongs to a document that does not exist.');
}
