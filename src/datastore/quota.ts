/** Quotas of a user: documents, bytes and namespaces. */
import { limitError } from '../core/settings/exceeds.js';
import type { LimitName, Limits } from '../core/settings/limits.js';

/** What a user has in total. The numbers are stored, not counted each time. */
export interface Usage {
  documents: number;
  sizeBytes: number;
  namespaces: number;
}

const quotas = [
  ['documents', 'dataDocumentsPerUserMax', 'documents'],
  ['sizeBytes', 'dataBytesPerUserMax', 'bytes of values'],
  ['namespaces', 'dataNamespacesPerUserMax', 'namespaces'],
] as const satisfies readonly (readonly [keyof Usage, LimitName, string])[];

export function hasQuota(limits: Limits): boolean {
  return quotas.some(([, limit]) => limits[limit] > 0);
}

/** Refuses a write that would exceed a quota. A write that makes the total smaller is always allowed. */
export function checkQuota(before: Usage, after: Usage, limits: Limits): void {
  for (const [field, limit, unit] of quotas) {
    if (limits[limit] === 0 || after[field] <= limits[limit] || after[field] <= before[field]) continue;
    throw limitError('quota_exceeded', {
      subject: 'After this write the user',
      unit,
      limit,
      limits,
      received: after[field],
      advice: 'Delete documents that are no longer needed',
      details: { limit, max: limits[limit], used: before[field] },
    });
  }
}
