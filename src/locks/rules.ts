/** What may happen to a lock, as pure functions that both homes call, and the errors that refuse it. */
import { StoaError } from '../core/errors.js';
import { limitError } from '../core/settings/exceeds.js';
import { checkBytes, checkCharacters } from '../core/settings/field-limits.js';
import type { Limits } from '../core/settings/limits.js';
import { invalidCharacterIn } from '../core/text/invalid-character.js';
import type { Lock, LockEnd } from './model.js';

/** A request for a lock, after its checks. */
export interface Acquisition {
  user: string;
  name: string;
  holder: string;
  ttlMs: number;
  /** Undefined keeps the note of a lock that is renewed. */
  note: string | undefined;
  /** Only a renewal of the acquisition with this number. */
  fence: number | undefined;
  /** Refused if anybody holds the lock, the caller included. */
  ifFree: boolean;
}

export interface Release {
  user: string;
  name: string;
  holder: string;
  fence: number | undefined;
  /** Releases the lock of another holder too. */
  force: boolean;
}

export function checkLockName(name: string, limits: Limits): void {
  if (name === '') throw invalidName('The name of the lock is empty.');
  checkBytes('name', name, 'lockNameBytesMax', limits);
  const character = invalidCharacterIn(name);
  if (character !== undefined) throw invalidName(`The name of the lock contains ${character}.`);
}

export function checkLockNote(note: string, limits: Limits): void {
  checkCharacters('note', note, 'lockNoteCharactersMax', limits);
  const character = invalidCharacterIn(note);
  if (character !== undefined)
    throw new StoaError('invalid_request', `The note contains ${character}.`, {
      fix: 'Remove the character.',
      details: { field: 'note' },
    });
}

/** The time to live in milliseconds. */
export function lockTtlMs(ttlSeconds: number | undefined, limits: Limits): number {
  const seconds = ttlSeconds ?? limits.lockSeconds;
  if (seconds > limits.lockSecondsMax)
    throw limitError('invalid_request', {
      subject: 'ttl',
      unit: 'seconds',
      limit: 'lockSecondsMax',
      limits,
      received: seconds,
      advice: 'Use a shorter time and renew the lock',
      details: { field: 'ttl' },
    });
  return Math.ceil(seconds * 1_000);
}

/** The lock, if it has not ended. */
export function heldLock(lock: Lock | undefined, endOf: LockEnd, nowMs: number): Lock | undefined {
  return lock !== undefined && endOf(lock) > nowMs ? lock : undefined;
}

/**
 * The renewed lock, if the caller holds it; undefined if it is free. Refuses a lock of another holder, and a
 * renewal of an acquisition that is over.
 */
export function renewedLock(
  held: Lock | undefined,
  { name, holder, ttlMs, note, fence, ifFree }: Acquisition,
  nowMs: number,
  endOf: LockEnd,
): Lock | undefined {
  if (fence !== undefined) checkAcquisition(held, name, holder, fence);
  if (held === undefined) return undefined;
  if (held.holder !== holder || ifFree) throw lockHeld(held, endOf);
  return { ...held, note: note ?? held.note, renewedAtMs: nowMs, expiresAtMs: nowMs + ttlMs };
}

export function newLock(
  { user, name, holder, ttlMs, note = '' }: Acquisition,
  fence: number,
  nowMs: number,
): Lock {
  return {
    user,
    name,
    holder,
    fence,
    note,
    acquiredAtMs: nowMs,
    renewedAtMs: nowMs,
    expiresAtMs: nowMs + ttlMs,
  };
}

export function checkLockQuota(held: number, limits: Limits): void {
  if (held < limits.locksPerUserMax) return;
  throw limitError('quota_exceeded', {
    subject: 'The user',
    unit: 'locks',
    limit: 'locksPerUserMax',
    limits,
    received: held + 1,
    advice: 'Release locks that are not needed',
  });
}

/** Whether the release has an effect: false if no agent holds the lock. Refuses a lock of another holder. */
export function checkRelease(
  held: Lock | undefined,
  { name, holder, fence, force }: Release,
  endOf: LockEnd,
): held is Lock {
  if (held === undefined) return false;
  if (force) return true;
  if (held.holder !== holder) throw lockHeld(held, endOf);
  if (fence !== undefined) checkAcquisition(held, name, holder, fence);
  return true;
}

/** For a commit: the number of the lock, and 0 if it is free. */
export function checkLockFence(held: Lock | undefined, name: string, fence: number): void {
  const current = held?.fence ?? 0;
  if (current === fence) return;
  throw new StoaError(
    'conflict',
    `The lock "${name}" ${current === 0 ? 'is free' : `has the fence ${current}`}. Expected fence ${fence}.`,
    {
      fix: 'Read the list of locks, and acquire the lock again if it was lost.',
      details: { name, fence, current_fence: current, ...(held && { holder: held.holder }) },
    },
  );
}

function checkAcquisition(held: Lock | undefined, name: string, holder: string, fence: number): void {
  if (held !== undefined && held.fence === fence && held.holder === holder) return;
  const now = held === undefined ? 'it is free' : `${held.holder} holds it with fence ${held.fence}`;
  throw new StoaError('fenced', `The lock "${name}" is no longer held with fence ${fence}: ${now}.`, {
    fix: 'Stop the work that the lock guards, and acquire the lock again.',
    details: { name, fence, current_fence: held?.fence ?? null, ...(held && { holder: held.holder }) },
  });
}

function lockHeld(lock: Lock, endOf: LockEnd): StoaError {
  const since = new Date(lock.acquiredAtMs).toISOString();
  const expires_at = new Date(endOf(lock)).toISOString();
  const why = lock.note === '' ? '' : ` (${lock.note})`;
  return new StoaError(
    'conflict',
    `"${lock.name}" is locked by ${lock.holder}${why} since ${since}. The lock ends at ${expires_at} unless it is renewed.`,
    {
      fix: 'Work on something else, ask again with a time to wait, or ask the holder to release it.',
      details: {
        name: lock.name,
        holder: lock.holder,
        since,
        expires_at,
        fence: lock.fence,
        ...(lock.note !== '' && { note: lock.note }),
      },
    },
  );
}

function invalidName(sentence: string): StoaError {
  return new StoaError('invalid_request', sentence, { details: { field: 'name' } });
}
