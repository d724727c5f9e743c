/** What the data store keeps: the seed's document, and the shapes in which callers see it. */

export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };
export type JsonObject = { [name: string]: JsonValue };

/** The namespace of callers that name none. */
export const defaultNamespace = 'default';

/** The collection, table or database of the seed. */
export const collectionName = 'agent_data_store';

/** One namespace of one user. */
export interface Scope {
  readonly user: string;
  readonly namespace: string;
}

/**
 * A document as backends store it. The value stays the JSON text that was written, so its numbers and key
 * order do not change. It is parsed only where code needs a part of it.
 */
export interface DocumentRecord {
  userId: string;
  namespace: string;
  key: string;
  valueJson: string;
  metadata: JsonObject;
  createdByAgent: string | null;
  lastAccessedByAgent: string | null;
  accessCount: number;
  /** Times are ISO 8601 in UTC with `Z`, to the microsecond where the writer was that exact. */
  createdAt: string;
  updatedAt: string;
  lastAccessedAt: string | null;
  /** 1 for a new document, one more with every write. */
  version: number;
  /** Always with milliseconds, so that the texts sort as the times do. */
  expiresAt: string | null;
}

/** A document as callers see it: the seed's fields, and ours at the end. */
export interface DataDocument<Value = JsonValue> {
  _id: string;
  userId: string;
  namespace: string;
  key: string;
  value: Value;
  metadata: JsonObject;
  createdByAgent: string | null;
  lastAccessedByAgent: string | null;
  accessCount: number;
  createdAt: string;
  updatedAt: string;
  lastAccessedAt: string | null;
  version: number;
  expiresAt: string | null;
}

/** An item of a list of keys. */
export interface KeySummary {
  key: string;
  version: number;
  /** Bytes of the value's JSON text. */
  sizeBytes: number;
  updatedAt: string;
}

export interface NamespaceSummary {
  namespace: string;
  count: number;
  sizeBytes: number;
  /** Every agent that ever wrote or read there, until the namespace is cleared; sorted. */
  agents: string[];
  updatedAt: string;
}
