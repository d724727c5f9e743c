/** Owners of documents. Names may contain colons, so documents of two owners can have the same id. */
import { documentId } from '../datastore/documents/document-id.js';
import { idCollision } from '../datastore/documents/merge-document.js';
import type { DocumentRecord, Scope } from '../datastore/model.js';

export function scopeOf(record: DocumentRecord): Scope {
  return { user: record.userId, namespace: record.namespace };
}

/** Throws if two of the documents have the same id and different owners: one would replace the other. */
export function checkIds(documents: readonly DocumentRecord[]): void {
  const byId = new Map<string, DocumentRecord>();
  for (const record of documents) {
    const id = documentId(record.userId, record.namespace, record.key);
    const twin = byId.get(id);
    if (twin !== undefined && (twin.userId !== record.userId || twin.namespace !== record.namespace))
      throw idCollision(id);
    byId.set(id, record);
  }
}
