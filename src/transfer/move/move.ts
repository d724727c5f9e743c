/**
 * Moves a whole Stoa from one home to another: counts and sums up the source, copies it, and compares the
 * target with it. A note in the target records how far the copy came, so that an interrupted move continues
 * from there.
 */
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { globalRoomId } from '../../messaging/identities/uuid.js';
import type { RoomLine } from '../records/record-schemas.js';
import type { TransferRecord } from '../model.js';
import { DependenciesFirst } from './dependencies-first.js';
import { type MoveSide, type MovedType, movedTypes } from './stores.js';
import { type Sums, livesOn, pageRecordsMax, pagesOf, sumsOf } from './sums.js';

export interface MoveOptions {
  readonly from: MoveSide;
  readonly to: MoveSide;
  readonly limits: Limits;
  /** Called with the time of the move: both homes must use it as their clock from then on. */
  readonly onInstant: (instantMs: number) => void;
  readonly onStep?: ((step: MoveStep) => void | Promise<void>) | undefined;
}

export interface MoveStep {
  phase: 'counting' | 'copying' | 'verifying';
  type: MovedType;
  done: number;
  /** Null while the records are counted. */
  total: number | null;
}

export interface MoveReport {
  records: number;
  /** Of this run; less than all where an earlier run was interrupted. */
  copied: number;
  blocks: number;
  types: Sums;
}

/** The note in the target. */
interface Progress {
  /** The id of the source. */
  source: string;
  instant_ms: number;
  /** Of the source, when the copy began. */
  extent: string;
  /** The type that is being copied; null when all are. */
  type: MovedType | null;
  after: string | null;
  done: number;
}

/** A note costs a sync of the disk. What was copied after the last note is copied again. */
const noteEveryMs = 500;
/**
 * Messages that expire within this time are copied, but not compared: they may already be deleted on one
 * side.
 */
const endingMs = 600_000;

/** Says what a move would do. Neither side is changed. */
export async function surveyMove(
  from: MoveSide,
  onStep: MoveOptions['onStep'] = () => undefined,
): Promise<Sums> {
  let done = 0;
  const sums = await sumsOf(from, movedTypes, {
    onPage: (type, records) => onStep({ phase: 'counting', type, done: (done += records), total: null }),
  });
  return sums;
}

export async function moveHome(options: MoveOptions): Promise<MoveReport> {
  const { from, to, onInstant } = options;
  const before = await progressOf(from, to);
  onInstant(before.instant_ms);
  const surveyed = await surveyMarked(options, before);
  const total = totalOf(surveyed);
  const copied = await copyAll(options, before, total);
  const blocks = await copyBlocks(from, to);
  const sums = await verify(options, before, surveyed);
  for (const side of [from, to]) await refuseObstacles(side);
  await refuseChanges(options, before);
  await to.move.mark.clear();
  return { records: total, copied, blocks, types: sums };
}

/**
 * Counts the source after the target is marked. A server notes itself and then looks for the mark, and here
 * it is the other way round: one of the two sees the other.
 */
async function surveyMarked({ from, to, onStep }: MoveOptions, before: Progress): Promise<Sums> {
  const { mark } = to.move;
  const isNew = (await mark.read()) === undefined;
  await mark.write(JSON.stringify(before));
  try {
    for (const side of [from, to]) await refuseObstacles(side);
    return await surveyMove(from, onStep);
  } catch (error) {
    // Nothing was copied, so the target is unchanged.
    if (isNew) await mark.clear();
    throw error;
  }
}

/** A server that was started and stopped again during the move left its changes behind. */
async function refuseChanges({ from, to }: MoveOptions, before: Progress): Promise<void> {
  const extent = await from.move.extent();
  if (extent === before.extent) return;
  await to.move.mark.write(JSON.stringify(fromStart(before, extent)));
  throw new StoaError(
    'conflict',
    `${from.place} was changed during the move: its feed was at ${before.extent} and is at ${extent}.`,
    {
      fix: 'Make sure that nothing else writes to the source, and run the same move again. It copies the differences.',
    },
  );
}

function fromStart(before: Progress, extent: string): Progress {
  return { ...before, extent, type: movedTypes[0], after: null, done: 0 };
}

/**
 * Where an earlier run ended, or the beginning where the source was changed since. Refuses a target that
 * contains anything else.
 */
export async function progressOf(from: MoveSide, to: MoveSide): Promise<Progress> {
  for (const side of [from, to]) await refuseObstacles(side);
  const extent = await from.move.extent();
  const noted = await to.move.mark.read();
  if (noted === undefined) {
    await refuseRecords(to);
    return { source: from.id, instant_ms: Date.now(), extent, type: movedTypes[0], after: null, done: 0 };
  }
  const progress = JSON.parse(noted) as Progress; // Only this file writes it.
  if (progress.source === from.id) return progress.extent === extent ? progress : fromStart(progress, extent);
  throw new StoaError(
    'conflict',
    `${to.place} holds a part of a move from another Stoa (id ${progress.source}; ${from.place} is ${from.id}).`,
    { fix: 'Use an empty target, or move from the Stoa that this target was begun with.' },
  );
}

async function refuseObstacles({ move, place }: MoveSide): Promise<void> {
  const obstacles = await move.obstacles();
  if (obstacles.length > 0)
    throw new StoaError('conflict', `${place} is in use. ${obstacles.join(' ')}`, {
      fix: 'Stop every server on it. If work is left over, start one server, wait until it is done, and stop it.',
    });
}

async function refuseRecords({ place, stores }: MoveSide): Promise<void> {
  for (const type of movedTypes) {
    for await (const { records } of pagesOf(stores[type], null)) {
      const found = records.find((record) => !isNewGlobalRoom(record));
      if (found !== undefined)
        throw new StoaError('conflict', `${place} is not empty: it has a record of ${found.type}.`, {
          fix: 'Use an empty database with an empty Redis, or a directory that does not exist yet.',
        });
    }
  }
}

/** Every home makes it. */
function isNewGlobalRoom(record: TransferRecord): boolean {
  if (record.type !== 'messaging.room') return false;
  const { id, messageCount } = record as RoomLine; // The type says so.
  return id === globalRoomId && messageCount === 0;
}

async function copyAll({ from, to, onStep }: MoveOptions, before: Progress, total: number): Promise<number> {
  const { mark } = to.move;
  let { done } = before;
  let notedMs = Date.now();
  const start = before.type === null ? movedTypes.length : movedTypes.indexOf(before.type);
  for (const [index, type] of movedTypes.entries()) {
    if (index < start) continue;
    const source = type === 'workspaces.task' ? new DependenciesFirst(from.stores[type]) : from.stores[type];
    const pages = {
      page: source.page.bind(source),
      sizeOf: from.stores[type].sizeOf.bind(from.stores[type]),
    };
    for await (const { records, after } of pagesOf(pages, index === start ? before.after : null)) {
      if (records.length > 0) await to.stores[type].write(records);
      done += records.length;
      await onStep?.({ phase: 'copying', type, done, total });
      const next = after === null ? (movedTypes[index + 1] ?? null) : type;
      if (Date.now() - notedMs < noteEveryMs && next !== null) continue;
      await mark.write(JSON.stringify({ ...before, type: next, after, done } satisfies Progress));
      notedMs = Date.now();
    }
  }
  return done - before.done;
}

/** They expire, so they are not compared. */
async function copyBlocks(from: MoveSide, to: MoveSide): Promise<number> {
  let blocks = 0;
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<MoveSide['messaging']['blocks']>> = await from.messaging.blocks(
      after,
      pageRecordsMax,
    );
    for (const block of page.items) await to.messaging.block(block);
    blocks += page.items.length;
    after = page.next;
  } while (after !== null);
  return blocks;
}

/** A difference makes the next run copy everything again: what is missing or different is then written. */
async function verify(
  { from, to, limits, onStep }: MoveOptions,
  before: Progress,
  surveyed: Sums,
): Promise<Sums> {
  let done = 0;
  const total = totalOf(surveyed);
  const onPage = (type: MovedType, records: number): void | Promise<void> =>
    onStep?.({ phase: 'verifying', type, done: (done += records), total });
  const isCounted = livesOn(limits, Date.now() + endingMs);
  const sums = await sumsOf(to, movedTypes, { onPage, isCounted });
  const again = await sumsOf(from, ['messaging.message', 'messaging.direct'], { isCounted });
  const source = { ...surveyed, ...again };
  const different = movedTypes.filter(
    (type) => source[type].records !== sums[type].records || source[type].hash !== sums[type].hash,
  );
  if (different.length === 0) return sums;
  await to.move.mark.write(JSON.stringify(fromStart(before, before.extent)));
  throw new StoaError(
    'conflict',
    `The two sides differ in ${different.map((type) => `${type} (${source[type].records} records in ${from.place}, ${sums[type].records} in ${to.place})`).join(', ')}.`,
    {
      fix: 'Make sure that nothing else writes to either side, and run the same move again. It copies the differences. If the sides still differ, empty the target and begin again.',
      details: {
        different: different.map((type) => ({ type, from: source[type], to: sums[type] })),
      },
    },
  );
}

function totalOf(sums: Sums): number {
  return movedTypes.reduce((sum, type) => sum + sums[type].records, 0);
}
