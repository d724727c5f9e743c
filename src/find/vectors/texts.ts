/** The text of a document that is embedded: what its words are taken from, or chosen members of its value. */
import { createHash } from 'node:crypto';
import type { DocumentRecord } from '../../datastore/model.js';
import { documentText } from '../text/document-text.js';
import { memberOf } from '../filter.js';

/** `fields` null: everything that is searched by words. Empty if there is nothing to embed. */
export function embeddedText(
  record: DocumentRecord,
  fields: readonly string[] | null,
  bytesMax: number,
): string {
  const { title, body } = documentText(fields === null ? record : withFields(record, fields));
  const text = (fields === null ? [...title, ...body] : [...title.slice(1), ...body]).join('\n');
  return Buffer.byteLength(text) <= bytesMax ? text : cut(text, bytesMax);
}

/** Only these members of the value, and nothing of the metadata. */
function withFields(record: DocumentRecord, fields: readonly string[]): DocumentRecord {
  const value: unknown = JSON.parse(record.valueJson);
  const chosen = fields.map((field) => (field === '$' ? value : memberOf(value, field)));
  return { ...record, metadata: {}, valueJson: JSON.stringify(chosen.filter((one) => one !== undefined)) };
}

/** The beginning of the text, without a half character at its end. */
function cut(text: string, bytesMax: number): string {
  return Buffer.from(text).subarray(0, bytesMax).toString().replace(/�+$/u, '');
}

/** Equal texts are not embedded twice. */
export function textHash(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
