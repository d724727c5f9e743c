/**
 * `stoa move` where one side is CouchDB, DynamoDB or Firestore: copies the documents, resumable and verified.
 */
import { createHash } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Config } from '../../../core/settings/config.js';
import { type MoveResult, moveDocuments, surveyDocuments } from '../../../datastore/transfer/move.js';
import { StoaError, fileReasonOf, messageOf } from '../../../core/errors.js';
import { type OpenedStore, capacityOf, openDataStoreAt } from '../../../open/datastore.js';
import { type Output, counted } from '../../output/output.js';
import { type Place, nameOf } from './move.js';
import { isMissing } from '../../../core/files.js';

interface Names {
  from: string;
  to: string;
}

interface State extends Names {
  after: string;
}

interface StoreMove {
  readonly output: Output;
  readonly config: Config;
  readonly from: Place;
  readonly to: Place;
  readonly dryRun: boolean;
  /** The file with the progress, or undefined for one in the current directory. */
  readonly state: string | undefined;
}

export async function moveStore({ output, config, from, to, dryRun, state: path }: StoreMove): Promise<void> {
  const { limits } = config;
  const names = { from: nameOf(from), to: nameOf(to) };
  const statePath = resolve(path ?? `.stoa-move-${shortHash([from, to])}.json`);
  if (dryRun) return survey(output, { from, to, names, config });
  const result = await withStores([from, to], config, async (source, target) => {
    const state = await readState(statePath, names);
    if (state !== undefined) output.say(`Continuing the earlier run (${statePath}).`);
    return output.working('Moving', ({ update }) =>
      moveDocuments({
        from: source.port,
        to: target,
        limits,
        after: state?.after ?? null,
        onStep: async ({ phase, done, total, after }) => {
          if (total !== null)
            update({ done: phase === 'verifying' ? total / 2 + done / 2 : done / 2, total });
          if (phase === 'copying' && after !== null) await writeState(statePath, { ...names, after });
        },
      }),
    );
  });
  await rm(statePath, { force: true });
  report(result, names, output.say.bind(output));
  const others =
    result.others === 0
      ? ''
      : ` ${names.to} has ${result.others} more documents that are not part of this move.`;
  const sides = { from: { place: names.from, ...result.from }, to: { place: names.to, ...result.to } };
  output.done(
    { ...result, ...sides },
    result.verified
      ? `Verified: both have ${counted(result.to.documents, 'document')} with the hash ${result.to.hash.slice(0, 16)}….${others}`
      : 'NOT verified.',
  );
  if (!result.verified) {
    throw new StoaError(
      'conflict',
      `The two sides differ: ${counted(result.from.documents, 'document')} in ${names.from}, ${result.to.documents} of them in ${names.to}.`,
      {
        fix: 'Stop all writes to the source and run the command again.',
        details: { different: result.different, refused: result.refused },
      },
    );
  }
}

/** Opens only the source, and creates nothing on either side. */
async function survey(
  output: Output,
  { from, to, names, config }: Pick<StoreMove, 'from' | 'to' | 'config'> & { names: Names },
): Promise<void> {
  const target = await capacityOf(to.kind === 'store' ? to.url : '');
  const source = await openPlace(from, config, { prepare: false });
  try {
    const found = await output.working('Counting', (progress) =>
      surveyDocuments(
        {
          from: source.port,
          limits: config.limits,
          onStep: ({ done }) => progress.show(() => counted(done, 'document')),
        },
        target,
      ),
    );
    for (const { id, reason } of found.refused) output.say(`Would be refused: ${id}: ${reason}.`);
    const going = `${found.documents - found.refused.length} documents would be copied from ${names.from} to ${names.to}; ${found.oversized.length} exceed the value limit.`;
    output.done({ dry_run: true, ...found, from: { place: names.from }, to: { place: names.to } }, going);
  } finally {
    await source.close();
  }
}

function report(result: MoveResult, names: Names, say: (sentence: string) => void): void {
  say(`Copied ${counted(result.copied, 'document')} from ${names.from} to ${names.to}.`);
  for (const id of result.oversized) say(`Exceeds the value limit, but was copied: ${id}`);
  for (const { id, reason } of result.refused) say(`Refused: ${id}: ${reason}`);
  for (const id of result.different) say(`Different or missing: ${id}`);
}

async function withStores(
  places: readonly [Place, Place],
  config: Config,
  work: (from: OpenedStore, to: OpenedStore) => Promise<MoveResult>,
): Promise<MoveResult> {
  const from = await openPlace(places[0], config, { prepare: false });
  try {
    const to = await openPlace(places[1], config, { prepare: true });
    try {
      return await work(from, to);
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
}

/** The documents of a home are opened with the home. */
async function openPlace(
  place: Place,
  { limits, secretKeys, operatorToken }: Config,
  { prepare }: { prepare: boolean },
): Promise<OpenedStore> {
  if (place.kind !== 'postgres')
    return openDataStoreAt(place.kind === 'store' ? place.url : place.path, {
      limits,
      nowMs: Date.now,
      prepare,
    });
  const { postgres, redis } = place;
  const { openStoa } = await import('../../../index.js');
  const stoa = await openStoa({ postgres, redis, secretKeys, operatorToken, limits });
  return { port: stoa.home.data, writer: stoa.home.writer, close: () => stoa.close() };
}

function shortHash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 8);
}

async function readState(path: string, names: Names): Promise<State | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw new StoaError('invalid_request', `${path} cannot be read: ${fileReasonOf(error)}.`, {
      cause: error,
      fix: 'Check the permissions of the file, or use another with --state.',
    });
  }
  const state = parsedState(path, text);
  if (state.from === names.from && state.to === names.to) return state;
  throw new StoaError('conflict', `${path} belongs to a move from ${state.from} to ${state.to}.`, {
    fix: 'Delete the file, or use another with --state.',
  });
}

function parsedState(path: string, text: string): State {
  try {
    return JSON.parse(text) as State; // `writeState` wrote the file; the state of another move has other names.
  } catch (error) {
    throw new StoaError('invalid_request', `${path} is not the state of a move: ${messageOf(error)}.`, {
      fix: 'Delete the file to start again, or use another with --state.',
      cause: error,
    });
  }
}

/** The old state is kept until the new one is complete. */
async function writeState(path: string, state: State): Promise<void> {
  await writeFile(`${path}.new`, JSON.stringify(state), { mode: 0o600 });
  await rename(`${path}.new`, path);
}
