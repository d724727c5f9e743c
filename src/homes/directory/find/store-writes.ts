/** Notes of writes of a store beside the directory: a row for each user whose documents the write names. */
import { type WriteNote, usersOf } from '../../../datastore/document-store/notes-port.js';
import { userKey } from '../../../identity/user-key.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { findFamilies, partitionBytes } from './rows.js';

interface NoteRow extends Pick<WriteNote, 'server' | 'agent'> {
  readonly user: string;
  readonly seenAtMs: number;
  readonly documents: readonly (readonly [namespace: string, key: string, isDelete: boolean])[];
  readonly cleared: { readonly namespace: string; readonly after: string | null } | null;
}

/** The part of the note about the user, in the user's shard. */
export function putNote(tx: Transaction, note: WriteNote, user: string): void {
  const { server, agent, documents, cleared } = note;
  const row: NoteRow = {
    server,
    agent,
    user,
    seenAtMs: tx.nowMs,
    documents: documents.flatMap((named) =>
      named.user === user ? [[named.namespace, named.key, named.isDelete] as const] : [],
    ),
    cleared: cleared && { namespace: cleared.scope.namespace, after: cleared.after },
  };
  tx.put(findFamilies.storeWrites, rowKey(note, user), Buffer.from(JSON.stringify(row)));
}

/** Does nothing if the note is gone. */
export function renewNote(tx: Transaction, note: WriteNote, user: string): void {
  if (tx.get(findFamilies.storeWrites, rowKey(note, user)) !== undefined) putNote(tx, note, user);
}

export function removeNote(tx: Transaction, note: WriteNote, user: string): void {
  tx.delete(findFamilies.storeWrites, rowKey(note, user));
}

export function readNotes(reader: Reader): { note: WriteNote; seenAtMs: number }[] {
  return Array.from(reader.range(findFamilies.storeWrites, {}), ({ key, value }) => decodeNote(key, value));
}

export function decodeNote(key: Buffer, value: Buffer): { note: WriteNote; seenAtMs: number } {
  const { server, agent, user, seenAtMs, documents, cleared } = JSON.parse(value.toString()) as NoteRow;
  return {
    seenAtMs,
    note: {
      id: key.toString('utf8', partitionBytes),
      server,
      agent,
      documents: documents.map(([namespace, name, isDelete]) => ({ user, namespace, key: name, isDelete })),
      cleared: cleared && { scope: { user, namespace: cleared.namespace }, after: cleared.after },
    },
  };
}

/** The users, each with a row of the note. */
export function noteUsers(note: WriteNote | null): ReadonlySet<string> {
  return note === null ? new Set() : usersOf(note);
}

function rowKey({ id }: WriteNote, user: string): Buffer {
  return Buffer.concat([userKey(user), Buffer.from(id)]);
}
