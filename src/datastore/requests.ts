/** Checks requests and converts them into the types of the port. */
import { StoaError } from '../core/errors.js';
import { limitError } from '../core/settings/exceeds.js';
import type { Limits } from '../core/settings/limits.js';
import { checkAgent, checkKey } from './names.js';
import type { DocumentWrite, ExpectedVersion } from './port.js';
import { expiryOfMs, latestMs, msOf } from './documents/times.js';
import { checkMetadata, valueJson } from './documents/value.js';

export interface SetOptions {
  /** Merged member by member into the stored metadata. If left out, the metadata stays unchanged. */
  metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Write only over this version; 0 only if the document does not exist. */
  ifVersion?: ExpectedVersion | undefined;
  /** Seconds until the document expires. A document set without `ttl` and `expiresAt` never expires. */
  ttl?: number | null | undefined;
  /** The moment at which it expires, ISO 8601. */
  expiresAt?: string | null | undefined;
  /** False: searches for words do not find the document, until a write says true. */
  index?: boolean | undefined;
}

export interface RequestRules {
  readonly limits: Limits;
  readonly nowMs: () => number;
}

/** One checked write. Throws if a part of it must not be stored. */
export function documentWrite(
  { limits, nowMs }: RequestRules,
  agent: string | null,
  key: string,
  value: unknown,
  options: SetOptions,
): DocumentWrite {
  checkKey(key, limits);
  if (agent !== null) checkAgent(agent, limits);
  const { ifVersion = null } = options;
  if (typeof ifVersion === 'number' && (!Number.isSafeInteger(ifVersion) || ifVersion < 0)) {
    throw new StoaError(
      'invalid_request',
      `ifVersion is ${ifVersion}. Expected a whole number of 0 or more.`,
      { details: { field: 'ifVersion' } },
    );
  }
  return {
    key,
    valueJson: valueJson(value, limits),
    metadata: options.metadata === undefined ? null : checkMetadata(options.metadata, limits),
    agent,
    ifVersion,
    expiresAt: expiryOf(options, nowMs()),
    index: options.index,
  };
}

/** The keys without repeats, each checked. */
export function distinctKeys(limits: Limits, keys: readonly string[]): string[] {
  for (const key of keys) checkKey(key, limits);
  return [...new Set(keys)];
}

export function checkBatchKeys(
  limits: Limits,
  sets: readonly string[],
  deletes: readonly string[],
  gets: readonly string[],
): void {
  const received = sets.length + deletes.length + gets.length;
  if (received > limits.dataBatchKeysMax)
    throw limitError('too_large', {
      subject: 'The batch',
      unit: 'keys',
      limit: 'dataBatchKeysMax',
      limits,
      received,
      advice: 'Send several batches',
    });
  const deleted = new Set(deletes);
  const both = sets.find((key) => deleted.has(key));
  if (both !== undefined)
    throw new StoaError('invalid_request', `Key "${both}" is both set and deleted.`, {
      fix: 'Send the key in one of the two lists.',
      details: { field: 'delete' },
    });
}

export function checkBatchBytes(limits: Limits, writes: readonly DocumentWrite[]): void {
  const sizeBytes = writes.reduce((sum, write) => sum + Buffer.byteLength(write.valueJson), 0);
  if (sizeBytes > limits.dataBatchBytesMax)
    throw limitError('too_large', {
      subject: 'The batch',
      unit: 'bytes of values',
      limit: 'dataBatchBytesMax',
      limits,
      received: sizeBytes,
      advice: 'Send several batches',
      details: { sizeBytes },
    });
}

function expiryOf({ ttl, expiresAt }: SetOptions, nowMs: number): string | null {
  if (typeof ttl === 'number' && typeof expiresAt === 'string') {
    throw new StoaError('invalid_request', 'The request has both ttl and expiresAt.', {
      fix: 'Send one of them.',
      details: { field: 'ttl' },
    });
  }
  const atMs =
    typeof ttl === 'number' ? nowMs + ttl * 1000 : typeof expiresAt === 'string' ? expiryMs(expiresAt) : null;
  if (atMs === null) return null;
  if (!Number.isFinite(atMs) || atMs <= nowMs || atMs > latestMs) {
    const [field, given] = typeof ttl === 'number' ? ['ttl', ttl] : ['expiresAt', expiresAt];
    throw new StoaError(
      'invalid_request',
      `${field} is ${given}. Expected a time in the future and before the year 10000.`,
      { fix: 'Send a later time, or omit it to keep the document.', details: { field } },
    );
  }
  return expiryOfMs(atMs);
}

function expiryMs(text: string): number {
  try {
    return msOf(text);
  } catch (error) {
    throw new StoaError(
      'invalid_request',
      `expiresAt is "${text.slice(0, 80)}". Expected an ISO 8601 time.`,
      {
        cause: error,
        details: { field: 'expiresAt' },
      },
    );
  }
}
