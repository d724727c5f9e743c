/** `stoa move`: copies the data store from one backend to another, resumable and verified. */
import { createHash } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { loadConfig } from '../../core/settings/config.js';
import { type MoveResult, moveDocuments, surveyDocuments } from '../../datastore/transfer/move.js';
import { StoaError, messageOf } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { withoutPassword } from '../../core/text/printable-url.js';
import { type OpenedStore, capacityOf, openDataStoreAt } from '../../open/datastore.js';
import { type Action, textOption } from '../definitions/definition.js';
import type { Output } from '../output/output.js';
import { settingFlags } from '../definitions/setting-flags.js';

interface State {
  from: string;
  to: string;
  after: string;
}

export const move: Action = async ({ output, globals }, _args, options) => {
  const [fromUrl, toUrl] = [
    required(textOption(options, 'from'), 'from'),
    required(textOption(options, 'to'), 'to'),
  ];
  if (fromUrl === toUrl)
    throw new StoaError(
      'invalid_request',
      `--from and --to are the same backend (${withoutPassword(fromUrl)}).`,
    );
  const { limits } = loadConfig({ flags: settingFlags(globals), environment: process.env }).config;
  const names = { from: withoutPassword(fromUrl), to: withoutPassword(toUrl) };
  const statePath = resolve(
    textOption(options, 'state') ??
      `.stoa-move-${createHash('sha256')
        .update(JSON.stringify([fromUrl, toUrl]))
        .digest('hex')
        .slice(0, 8)}.json`,
  );
  if (options['dryRun'] === true) return survey(output, { fromUrl, toUrl, names, limits });
  const result = await withStores([fromUrl, toUrl], limits, async (from, to) => {
    const progress = output.progress('Moving');
    const state = await readState(statePath, names);
    if (state !== undefined) output.say(`Continuing the earlier run (${statePath}).`);
    try {
      return await moveDocuments({
        from: from.port,
        to,
        limits,
        after: state?.after ?? null,
        onStep: async ({ phase, done, total, after }) => {
          if (total !== null)
            progress.update({ done: phase === 'verifying' ? total / 2 + done / 2 : done / 2, total });
          if (phase === 'copying' && after !== null) await writeState(statePath, { ...names, after });
        },
      });
    } finally {
      progress.end();
    }
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
      ? `Verified: both have ${result.to.documents} documents with the hash ${result.to.hash.slice(0, 16)}….${others}`
      : 'NOT verified.',
  );
  if (!result.verified) {
    throw new StoaError(
      'conflict',
      `The two sides differ: ${result.from.documents} documents in ${names.from}, ${result.to.documents} of them in ${names.to}.`,
      {
        fix: 'Stop all writes to the source and run the command again.',
        details: { different: result.different, refused: result.refused },
      },
    );
  }
};

/** Opens only the source, and creates nothing on either side. */
async function survey(
  output: Output,
  {
    fromUrl,
    toUrl,
    names,
    limits,
  }: { fromUrl: string; toUrl: string; names: { from: string; to: string }; limits: Limits },
): Promise<void> {
  const target = await capacityOf(toUrl);
  const from = await openDataStoreAt(fromUrl, { limits, nowMs: Date.now, prepare: false });
  try {
    const progress = output.progress('Counting');
    const found = await surveyDocuments(
      { from: from.port, limits, onStep: ({ done }) => progress.show(() => `${done} documents`) },
      target,
    ).finally(() => progress.end());
    for (const { id, reason } of found.refused) output.say(`Would be refused: ${id}: ${reason}.`);
    const going = `${found.documents - found.refused.length} documents would be copied from ${names.from} to ${names.to}; ${found.oversized.length} exceed the value limit.`;
    output.done({ dry_run: true, ...found, from: { place: names.from }, to: { place: names.to } }, going);
  } finally {
    await from.close();
  }
}

function report(
  result: MoveResult,
  names: { from: string; to: string },
  say: (sentence: string) => void,
): void {
  say(`Copied ${result.copied} documents from ${names.from} to ${names.to}.`);
  for (const id of result.oversized) say(`Exceeds the value limit, but was copied: ${id}`);
  for (const { id, reason } of result.refused) say(`Refused: ${id}: ${reason}`);
  for (const id of result.different) say(`Different or missing: ${id}`);
}

async function withStores(
  urls: readonly [string, string],
  limits: Limits,
  work: (from: OpenedStore, to: OpenedStore) => Promise<MoveResult>,
): Promise<MoveResult> {
  const from = await openDataStoreAt(urls[0], { limits, nowMs: Date.now, prepare: false });
  try {
    const to = await openDataStoreAt(urls[1], { limits, nowMs: Date.now });
    try {
      return await work(from, to);
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
}

async function readState(path: string, names: { from: string; to: string }): Promise<State | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new StoaError('invalid_request', `${path} cannot be read: ${messageOf(error)}.`, { cause: error });
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

function required(value: string | undefined, name: string): string {
  if (value === undefined)
    throw new StoaError('invalid_request', `--${name} is missing.`, {
      fix: 'Add a data directory or a URL, for example postgres://localhost/stoa.',
    });
  return value;
}
