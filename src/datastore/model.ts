/** The stored document of the seed, and the forms in which callers see it. */

export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };
export type JsonObject = { [name: string]: JsonValue };

/** The namespace of a request that does not name one. */
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
 * order do not change. It is parsed only if code needs a part of it.
 */
export interface DocumentRecord {
  userId: string;
  namespace: string;
  key: string;
  valueJson: string;
  metadata: JsonObject;
  createdByAgent: string | null;
  /** The agent of the last write, or null if that write named none. */
  updatedByAgent: string | null;
  lastAccessedByAgent: string | null;
  accessCount: number;
  /** Times are ISO 8601 in UTC with `Z`, with microseconds if the writer gave them. */
  createdAt: string;
  updatedAt: string;
  lastAccessedAt: string | null;
  /** 1 for a new document. Every write adds 1. */
  version: number;
  /** Always with milliseconds, so that sorting the texts sorts the times. */
  expiresAt: string | null;
  /** False: searches for words do not find the document. Left out otherwise. */
  indexed?: boolean;
}

/** A document as callers see it: the seed's fields, then the fields that Stoa adds. */
export interface DataDocument<Value = JsonValue> extends Omit<DocumentRecord, 'valueJson'> {
  _id: string;
  value: Value;
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
