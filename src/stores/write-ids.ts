/** Ids of writes. They show whether a write of this process happened, also if its answer was lost. */
import { randomBytes } from 'node:crypto';

export function newWriteId(): string {
  return randomBytes(9).toString('base64url');
}

/** Stored in a document: the id of its last write, and those before it, newest first, as one text. */
export interface WriteIds {
  writeId?: unknown;
  earlierWriteIds?: unknown;
}

/** Writes by others that may come between a write and the check whether it happened. */
const earlierMax = 8;

export function earlierThan(current: WriteIds): string {
  return listed(current).slice(0, earlierMax).join(',');
}

/** Whether the write is among the last few of the document. */
export function hasWrite(current: WriteIds, writeId: string): boolean {
  return listed(current).includes(writeId);
}

function listed({ writeId, earlierWriteIds }: WriteIds): string[] {
  if (typeof writeId !== 'string') return [];
  return [
    writeId,
    ...(typeof earlierWriteIds === 'string' && earlierWriteIds !== '' ? earlierWriteIds.split(',') : []),
  ];
}
