/** The one row of totals, changed in the commit of what it counts. */
import type { Reader, Transaction } from '../../kernel/transaction.js';
import type { Room } from '../../messaging/model.js';
import { type RankedRoom, rankRooms } from '../../messaging/totals.js';
import { decode, encode, families } from './messaging-rows.js';

export interface TotalsRow {
  agents: number;
  publicRooms: number;
  messages: number;
  lastActivityAtMs: number | null;
  top: RankedRoom[];
}

const totalsKey = Buffer.from('all');

export function readTotals(reader: Reader): TotalsRow {
  const value = reader.get(families.totals, totalsKey);
  return value === undefined ? { agents: 0, publicRooms: 0, messages: 0, lastActivityAtMs: null, top: [] } : decode<TotalsRow>(value);
}

export function countAgent(tx: Transaction): void {
  const totals = readTotals(tx);
  tx.put(families.totals, totalsKey, encode({ ...totals, agents: totals.agents + 1 }));
}

export function countRoom(tx: Transaction, room: Room): void {
  const totals = readTotals(tx);
  const next = room.isPrivate ? totals : { ...totals, publicRooms: totals.publicRooms + 1, top: rankRooms(totals.top, room) };
  tx.put(families.totals, totalsKey, encode({ ...next, lastActivityAtMs: room.lastActiveAtMs }));
}

export function countMessage(tx: Transaction, room: Room): void {
  const totals = readTotals(tx);
  const top = room.isPrivate ? totals.top : rankRooms(totals.top, room);
  tx.put(families.totals, totalsKey, encode({ ...totals, messages: totals.messages + 1, lastActivityAtMs: room.lastActiveAtMs, top }));
}

/** A message that an import brought: its room has the counts of its own. */
export function countImportedMessage(tx: Transaction): void {
  const totals = readTotals(tx);
  tx.put(families.totals, totalsKey, encode({ ...totals, messages: totals.messages + 1 }));
}
