/** What `stoa doctor` checks of the totals of `/stats`: each is compared with the rows that it counts. */
import { type Damage, missingRow, wrongRow } from '../../kernel/inspect/damage.js';
import { type Check, type Found, eachRow, type turn } from '../../kernel/inspect/doctor.js';
import type { Store } from '../../kernel/store.js';
import type { Reader } from '../../kernel/transaction.js';
import { byRank, topRoomsMax } from '../../../../messaging/rooms/totals.js';
import { isPublic } from '../../../../messaging/rooms/visibility.js';
import { uuidBytes } from '../../../../messaging/identities/uuid.js';
import { type RoomRow, decodeOrUndefined, encode, families } from '../../messaging/rows.js';
import { type CountsRow, type TopRow, countsKey, topKey } from '../../messaging/totals.js';

const idBytes = 16;

/** The totals of the rows. Unreadable rows are left out; their own family reports them. */
interface Counted {
  agents: number;
  publicRooms: number;
  /** Messages that are stored: fewer than were ever posted. */
  stored: number;
  /** Messages by the counts of their rooms. */
  posted: number;
  lastActivityAtMs: number | null;
  top: RoomRow[];
}

const nothingCounted: Counted = {
  agents: 0,
  publicRooms: 0,
  stored: 0,
  posted: 0,
  lastActivityAtMs: null,
  top: [],
};

/**
 * Counts during the walk over the rows. Concurrent writes can make the counts wrong, so a match only proves
 * that the totals are right; if they differ, everything is counted again in one transaction.
 */
export class TotalsDoctor {
  #walked = { ...nothingCounted };
  /** A page with damage is walked twice. */
  readonly #through = new Map<string, Buffer>();

  sawIdentity(key: Buffer): void {
    if (this.#isNew(families.agents, key)) this.#walked.agents += 1;
  }

  sawRoom(key: Buffer, room: RoomRow): void {
    if (this.#isNew(families.rooms, key)) this.#walked = withRoom(this.#walked, room);
  }

  /** Messages of users' rooms are not counted. */
  sawMessage(key: Buffer, room: RoomRow | undefined): void {
    if (this.#isNew(families.messages, key) && room?.owner === null) this.#walked.stored += 1;
  }

  check(isHere: (store: Store) => boolean): Check {
    return {
      family: families.totals,
      inspect: (row) =>
        row.key.equals(countsKey) || row.key.equals(topKey) ? [] : [row.surplus('Unknown counter.')],
      conclude: (reader, store) => (isHere(store) ? this.#inspectTotals(reader) : []),
    };
  }

  *#inspectTotals(reader: Reader): Generator<Found> {
    const counts = read<CountsRow>(reader, countsKey);
    const top = read<TopRow>(reader, topKey);
    if (isRight(counts, this.#walked) && isTop(reader, top, this.#walked)) return;
    const counted = yield* countAll(reader);
    if (!isRight(counts, counted))
      yield damageOf(reader, countsKey, problemOf(counts, counted), repairedCounts(counts, counted));
    const { top: rooms } = counted;
    const right: TopRow = { ids: rooms.map(({ id }) => id), floor: rooms.at(-1)?.messageCount ?? 0 };
    if (!isTop(reader, top, counted))
      yield damageOf(reader, topKey, 'The list of the busiest rooms is wrong.', right);
  }

  #isNew(family: string, key: Buffer): boolean {
    const through = this.#through.get(family);
    if (through !== undefined && Buffer.compare(key, through) <= 0) return false;
    this.#through.set(family, Buffer.from(key));
    return true;
  }
}

function problemOf(counts: CountsRow | undefined, { agents, publicRooms, stored }: Counted): string {
  const said = counts ?? { agents: 0, publicRooms: 0, messages: 0 };
  return (
    `The totals say ${said.agents} identities, ${said.publicRooms} public rooms and ${said.messages} messages; ` +
    `there are ${agents}, ${publicRooms} and at least ${stored}.`
  );
}

function damageOf(reader: Reader, key: Buffer, problem: string, row: CountsRow | TopRow): Damage {
  const damage = reader.get(families.totals, key) === undefined ? missingRow : wrongRow;
  return damage(families.totals, key, problem, encode(row));
}

function withRoom(counted: Counted, room: RoomRow): Counted {
  if (room.owner !== null) return counted;
  return {
    ...counted,
    publicRooms: counted.publicRooms + (room.isPrivate ? 0 : 1),
    posted: counted.posted + room.messageCount,
    lastActivityAtMs: Math.max(room.lastActiveAtMs, counted.lastActivityAtMs ?? 0),
    top: room.isPrivate ? counted.top : [...counted.top, room].toSorted(byRank).slice(0, topRoomsMax),
  };
}

function* countAll(reader: Reader): Generator<typeof turn, Counted> {
  let counted = nothingCounted;
  yield* eachRow(reader, families.rooms, {}, ({ value }) => {
    const room = roomOf(value);
    if (room !== undefined) counted = withRoom(counted, room);
  });
  let [agents, stored] = [0, 0];
  yield* eachRow(reader, families.agents, {}, () => (agents += 1));
  // The messages of a deleted room are removed in steps; whether it had an owner is no longer known.
  const countedRooms = new Set<string>();
  yield* eachRow(reader, families.rooms, {}, ({ key, value }) => {
    if (roomOf(value)?.owner === null) countedRooms.add(key.toString('latin1'));
  });
  yield* eachRow(reader, families.messages, {}, ({ key }) => {
    if (countedRooms.has(key.toString('latin1', 0, idBytes))) stored += 1;
  });
  return { ...counted, agents, stored };
}

/**
 * Totals of 0 have no row. The number of messages never falls, so it is only compared with the messages that
 * are left. The clock of the last activity may have been set back since.
 */
function isRight(
  counts: CountsRow | undefined,
  { agents, publicRooms, stored, lastActivityAtMs }: Counted,
): boolean {
  if (counts === undefined) return agents === 0 && lastActivityAtMs === null;
  const { messages } = counts;
  return (
    counts.agents === agents &&
    counts.publicRooms === publicRooms &&
    Number.isSafeInteger(messages) &&
    messages >= stored &&
    (lastActivityAtMs === null || Number.isSafeInteger(counts.lastActivityAtMs))
  );
}

function repairedCounts(
  counts: CountsRow | undefined,
  { agents, publicRooms, stored, posted, lastActivityAtMs }: Counted,
): CountsRow {
  const messages =
    counts !== undefined && Number.isSafeInteger(counts.messages) && counts.messages >= stored
      ? counts.messages
      : Math.max(posted, stored);
  return { agents, publicRooms, messages, lastActivityAtMs };
}

/** Among rooms with the same number of messages any may be in the list. */
function isTop(reader: Reader, row: TopRow | undefined, { top }: Counted): boolean {
  if (row === undefined) return top.length === 0;
  if (!Array.isArray(row.ids) || row.ids.length !== top.length || new Set(row.ids).size !== top.length)
    return false;
  const rooms = row.ids.flatMap((id) => roomOf(reader.get(families.rooms, uuidBytes(String(id)))) ?? []);
  return (
    rooms.every(isPublic) && countsOf(rooms) === countsOf(top) && row.floor <= (top.at(-1)?.messageCount ?? 0)
  );
}

function countsOf(rooms: readonly RoomRow[]): string {
  return String(rooms.map(({ messageCount }) => messageCount).toSorted((a, b) => b - a));
}

function roomOf(value: Buffer | undefined): RoomRow | undefined {
  return value === undefined ? undefined : decodeOrUndefined<RoomRow>(value);
}

function read<Row extends object>(reader: Reader, key: Buffer): Row | undefined {
  const value = reader.get(families.totals, key);
  return value === undefined ? undefined : decodeOrUndefined<Row>(value);
}
