/**
 * The rules of a write: how it changes a document. Every backend calls these functions, or implements the
 * same rules in its query language.
 */
import { StoaError, versionFailure } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import type { DocumentRecord, Scope } from '../model.js';
import type { DocumentWrite, ExpectedVersion, WriteResult } from '../port.js';
import { msOf, timeOfMs } from './times.js';
import { checkMetadataSize } from './value.js';

/** The document after a write. An expired document counts as missing. */
export function mergeDocument(
  scope: Scope,
  current: DocumentRecord | undefined,
  write: DocumentWrite,
  nowMs: number,
  limits: Limits,
): DocumentRecord {
  const existing = current !== undefined && isLive(current, nowMs) ? current : undefined;
  checkVersion(write.key, existing?.version ?? 0, write.ifVersion);
  const now = timeOfMs(nowMs);
  const metadata =
    write.metadata === null ? (existing?.metadata ?? {}) : { ...existing?.metadata, ...write.metadata };
  // Metadata is merged, so it can grow with every write.
  if (write.metadata !== null && existing !== undefined) checkMetadataSize(metadata, limits);
  return {
    userId: scope.user,
    namespace: scope.namespace,
    key: write.key,
    valueJson: write.valueJson,
    metadata,
    createdByAgent: existing === undefined ? write.agent : existing.createdByAgent,
    updatedByAgent: write.agent,
    lastAccessedByAgent: write.agent ?? existing?.lastAccessedByAgent ?? null,
    accessCount: existing?.accessCount ?? 0,
    createdAt: existing?.createdAt ?? now,
    updatedAt: now,
    lastAccessedAt: now,
    version: (existing?.version ?? 0) + 1,
    expiresAt: write.expiresAt === undefined ? (existing?.expiresAt ?? null) : write.expiresAt,
    ...((write.index ?? existing?.indexed ?? true) ? undefined : { indexed: false }),
  };
}

/** `current` is 0 if there is no document. */
export function checkVersion(key: string, current: number, expected: ExpectedVersion): void {
  if (expected === null || expected === current || (expected === 'any' && current > 0)) return;
  const found = current === 0 ? 'the document does not exist' : `the current version is ${current}`;
  const wanted =
    expected === 0
      ? 'no document was expected'
      : `${expected === 'any' ? 'a document' : `version ${expected}`} was expected`;
  throw new StoaError('version_conflict', `Key "${key}": ${wanted}, but ${found}.`, {
    fix: 'Read the document again, apply the change to its current value, and write with its version.',
    details: { key, expected, current },
  });
}

/** The check of a commit: throws when the document does not have the expected version. */
export function requireVersion(scope: Scope, key: string, current: number, expected: number): void {
  if (current === expected) return;
  throw versionFailure(`The document "${key}" in "${scope.namespace}"`, current, expected);
}

export function isLive(document: Pick<DocumentRecord, 'expiresAt'>, nowMs: number): boolean {
  return document.expiresAt === null || msOf(document.expiresAt) > nowMs;
}

export function sizeOf(document: Pick<DocumentRecord, 'valueJson'>): number {
  return Buffer.byteLength(document.valueJson);
}

export function resultOf(document: DocumentRecord): WriteResult {
  return {
    key: document.key,
    version: document.version,
    sizeBytes: sizeOf(document),
    updatedAt: document.updatedAt,
    created: document.version === 1,
  };
}

/** Two owners can have the same `_id` where the backend's primary key is the id. */
export function idCollision(id: string): StoaError {
  return new StoaError('id_collision', `The id "${id}" belongs to a document of another user or namespace.`, {
    fix: 'Choose a namespace without colons, or a backend that keys by user, namespace and key.',
    details: { id },
  });
}
