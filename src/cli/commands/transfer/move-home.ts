/** `stoa move` between two homes: everything, resumable and verified. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { StoaError, messageOf } from '../../../core/errors.js';
import type { Config } from '../../../core/settings/config.js';
import { readManifest } from '../../../homes/directory/kernel/directory/manifest.js';
import { type Stoa, openStoa } from '../../../index.js';
import { keyFileName } from '../../../secrets/secrets.js';
import {
  type MoveReport,
  type MoveStep,
  moveHome,
  progressOf,
  surveyMove,
} from '../../../transfer/move/move.js';
import type { MoveRole } from '../../../transfer/move/port.js';
import { type MoveSide, moveSide } from '../../../transfer/move/stores.js';
import type { Sums } from '../../../transfer/move/sums.js';
import { type Output, counted } from '../../output/output.js';
import { Pace } from '../../output/pace.js';
import type { Progress } from '../../output/progress.js';
import { type Place, nameOf } from './move.js';

type HomePlace = Exclude<Place, { kind: 'store' }>;

interface MoveRequest {
  readonly output: Output;
  readonly config: Config;
  readonly from: HomePlace;
  readonly to: HomePlace;
  readonly dryRun: boolean;
}

const labels = { counting: 'Counting', copying: 'Copying', verifying: 'Verifying' } as const;
const lineEveryMs = 1_000;

export async function moveStoa(request: MoveRequest): Promise<void> {
  const { output, config, from, to, dryRun } = request;
  // Both homes use the same fixed time, so that a record which expires meanwhile is still moved and compared.
  let instantMs = Date.now();
  const clock = (): number => instantMs;
  await requireSource(request);
  const exists = await hasHome(request, to, 'to');
  const source = await openSide(request, from, 'from', clock);
  try {
    if (dryRun) return await survey(request, source.side, exists, clock);
    const target = await openSide(request, to, 'to', clock);
    const report = new MoveProgress(output);
    try {
      const { side } = target;
      const result = await moveHome({
        from: source.side,
        to: side,
        limits: config.limits,
        onInstant: (ms) => {
          instantMs = ms;
        },
        onStep: (step) => report.show(step),
      });
      report.end();
      tell(output, result, { from: source.side.place, to: side.place });
    } finally {
      report.end();
      await target.stoa.close();
    }
  } finally {
    await source.stoa.close();
  }
}

/** Counts the source and looks at the target. Neither is changed, and a missing target is not made. */
async function survey(
  request: MoveRequest,
  from: MoveSide,
  exists: boolean,
  clock: () => number,
): Promise<void> {
  const { output, to } = request;
  const report = new MoveProgress(output);
  const types = await surveyMove(from, (step) => report.show(step)).finally(() => report.end());
  const obstacles: string[] = [];
  const target = exists ? await openSide(request, to, 'look', clock) : undefined;
  try {
    if (target === undefined)
      obstacles.push(...(await from.move.obstacles()).map((one) => `${from.place}: ${one}`));
    else await progressOf(from, target.side);
  } catch (error) {
    if (!(error instanceof StoaError)) throw error;
    obstacles.push(error.message);
  } finally {
    await target?.stoa.close();
  }
  const records = recordsOf(types);
  output.line({ dry_run: true, records, types: counts(types), obstacles }, ...typeLines(types));
  if (obstacles.length > 0)
    throw new StoaError('conflict', `This move would be refused. ${obstacles.join(' ')}`, {
      fix: 'Remove these obstacles, and try the dry run again.',
    });
  output.say(
    `${records} records would be moved from ${from.place} to ${nameOf(to)}. There are no obstacles.`,
  );
}

interface OpenSide {
  readonly stoa: Stoa;
  readonly side: MoveSide;
}

async function openSide(
  { output, config }: MoveRequest,
  place: HomePlace,
  role: MoveRole,
  clock: () => number,
): Promise<OpenSide> {
  const { secretKeys, limits, engine, shards } = config;
  const stoa = await openStoa({
    ...(place.kind === 'directory'
      ? // A directory that is the target gets its own key file, so that it can be started without the keys of the source.
        {
          data: place.path,
          ...(role === 'from'
            ? { secretKeys }
            : { engine: engine ?? undefined, shards: shards ?? undefined }),
        }
      : { postgres: place.postgres, redis: place.redis, secretKeys }),
    limits,
    move: role,
    clock,
    onError: (error, about) => output.warn(`${about}: ${messageOf(error)}`),
  });
  return { stoa, side: moveSide(nameOf(place), stoa.home) };
}

async function requireSource(request: MoveRequest): Promise<void> {
  const { from, config } = request;
  if (!(await hasHome(request, from, 'from')))
    throw new StoaError('not_found', `There is no Stoa at ${nameOf(from)}.`, { fix: 'Check --from.' });
  if (from.kind === 'directory' && config.secretKeys === null && !existsSync(join(from.path, keyFileName)))
    throw new StoaError('invalid_config', `${from.path} has no key file (${keyFileName}).`, {
      fix: 'Set STOA_SECRET_KEYS to the keys that its servers were started with.',
    });
}

async function hasHome({ config, output }: MoveRequest, place: HomePlace, role: MoveRole): Promise<boolean> {
  if (place.kind === 'directory') return (await readManifest(place.path)) !== undefined;
  const { hasStoa } = await import('../../../homes/postgres/transfer/look.js');
  const secretKeys = config.secretKeys ?? undefined;
  const onError = (error: unknown, about: string): void => output.warn(`${about}: ${messageOf(error)}`);
  return hasStoa({ ...place, secretKeys }, config.limits, onError, role);
}

function tell(output: Output, { types, ...report }: MoveReport, places: { from: string; to: string }): void {
  output.line({ verified: true, ...report, ...places, types }, ...typeLines(types));
  output.say(
    `Moved ${counted(report.records, 'record')} from ${places.from} to ${places.to}. Verified: both have the same number and hash of each type.`,
  );
}

function counts(types: Sums): Record<string, number> {
  return Object.fromEntries(Object.entries(types).map(([type, { records }]) => [type, records]));
}

function recordsOf(types: Sums): number {
  return Object.values(types).reduce((sum, { records }) => sum + records, 0);
}

function typeLines(types: Sums): string[] {
  return Object.entries(types).map(
    ([type, { records, hash }]) => `${type.padEnd(22)} ${String(records).padStart(9)}  ${hash.slice(0, 16)}`,
  );
}

/** A bar for each phase on a terminal; for programs a line of JSON at the start of each phase, then each second. */
class MoveProgress {
  readonly #output: Output;
  #phase: MoveStep['phase'] | undefined;
  #bar: Progress | undefined;
  #pace = new Pace();
  #saidAtMs = 0;

  constructor(output: Output) {
    this.#output = output;
  }

  show(step: MoveStep): void {
    if (step.phase !== this.#phase) this.#begin(step);
    const { phase, type, done, total } = step;
    if (total === null) this.#bar?.show(() => `${counted(done, 'record')} (${type})`);
    else this.#bar?.update({ done, total }, 'records');
    if (!this.#output.json) return;
    const { perSecond, secondsLeft } = this.#pace.at({ done, total: total ?? 0 });
    if (Date.now() - this.#saidAtMs < lineEveryMs) return;
    this.#saidAtMs = Date.now();
    this.#output.line(
      {
        phase,
        type,
        done,
        total,
        per_second: Math.round(perSecond),
        seconds_left: total === null ? null : secondsLeft,
      },
      '',
    );
  }

  end(): void {
    this.#bar?.end();
  }

  #begin({ phase, done }: MoveStep): void {
    this.#bar?.end();
    this.#phase = phase;
    this.#bar = this.#output.progress(labels[phase], done);
    this.#pace = new Pace(done);
    this.#saidAtMs = 0;
  }
}
