/**
 * Kills a writing process again and again, and looks each time at what is left. `npm run crash -- --rounds
 * 1000 --engine lmdb`.
 */
import { strict as assert } from 'node:assert';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { kernelFamilies, logFamilies } from '../../../../src/homes/directory/kernel/families.js';
import { openKernel } from '../../../../src/homes/directory/kernel/open-kernel.js';
import { decodeFeed, decodeRedo } from '../../../../src/homes/directory/kernel/feed/log.js';
import type { Store } from '../../../../src/homes/directory/kernel/store.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';

export interface CrashOptions {
  engine: 'lmdb' | 'rocksdb';
  rounds: number;
  /** The compiled sources that the process imports. */
  compiled: string;
  /** The program that writes. */
  child: string;
  /** Kept so that a failure can be looked at; a new directory every few rounds keeps the checks quick. */
  onDirectory?: (directory: string) => void;
  onRound?: (round: number, facts: CrashFacts) => void;
}

export interface CrashFacts {
  /** Transfers that were acknowledged in all rounds. */
  acknowledged: number;
  /** Transfers on disk that were not: their answer was lost with the process. */
  unanswered: number;
  /** Rounds in which the process was killed before it had opened the store. */
  killedEarly: number;
}

interface Transfer {
  writer: number;
  round: number;
  from: number;
  to: number;
  amount: number;
  announced: boolean;
  pid: number;
}

const families = ['crash/accounts', 'crash/transfers', 'crash/counters'];
const roundsPerDirectory = 20;

export async function crashRounds(options: CrashOptions): Promise<CrashFacts> {
  const facts: CrashFacts = { acknowledged: 0, unanswered: 0, killedEarly: 0 };
  let directory = '';
  let answered = new Map<number, string>();
  for (let round = 0; round < options.rounds; round += 1) {
    if (round % roundsPerDirectory === 0) {
      if (directory !== '') await rm(directory, { recursive: true });
      directory = await mkdtemp(join(tmpdir(), 'stoa-crash-'));
      options.onDirectory?.(directory);
      answered = new Map();
    }
    const { lines, ready } = await killedWhileWriting(options, directory);
    if (!ready) facts.killedEarly += 1;
    for (const [number, who] of lines) answered.set(number, who);
    facts.acknowledged += lines.length;
    facts.unanswered += await checkDirectory(directory, options.engine, answered);
    options.onRound?.(round + 1, facts);
  }
  await rm(directory, { recursive: true });
  return facts;
}

/**
 * Starts the writer, kills it at a random moment, and answers what it had acknowledged: number and writer.
 */
async function killedWhileWriting(
  { compiled, child: script, engine }: CrashOptions,
  directory: string,
): Promise<{ lines: [number, string][]; ready: boolean }> {
  const child = spawn(process.execPath, [script, compiled, engine, directory], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const kill = () => child.kill('SIGKILL');
  // One round of ten falls on the opening itself.
  const early = Math.random() < 0.1 ? setTimeout(kill, Math.random() * 300) : undefined;
  let late: NodeJS.Timeout | undefined;
  const lines: [number, string][] = [];
  let ready = false;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === 'ready') {
      ready = true;
      late ??= setTimeout(kill, Math.random() * 300);
    } else {
      const said = /^(\d+) (\d+ \d+)$/.exec(line);
      if (said !== null) lines.push([Number(said[1]), `${said[2]} ${child.pid}`]);
    }
  }
  const [, signal] = (await exited) as [number | null, string | null];
  clearTimeout(early);
  clearTimeout(late);
  assert.equal(signal, 'SIGKILL', 'the writer ended by itself');
  return { lines, ready };
}

/** Opens the remaining data and checks all invariants; returns the number of unacknowledged transfers. */
async function checkDirectory(
  directory: string,
  engine: CrashOptions['engine'],
  answered: Map<number, string>,
): Promise<number> {
  const kernel = await openKernel({ dataDir: directory, engine, families, limits: limitsWith() });
  try {
    return checkStore(kernel.root, answered);
  } finally {
    await kernel.close();
  }
}

function checkStore(store: Store, answered: Map<number, string>): number {
  const redo = [...store.range(kernelFamilies.redo, {})].flatMap(({ value }) => decodeRedo(value).items);
  assert.deepEqual(
    redo.map(({ lsn }) => lsn),
    oneTo(store.lsn).slice((redo[0]?.lsn ?? store.lsn + 1) - 1),
    'the redo log has a gap',
  );
  const feed = [...store.range(kernelFamilies.changes, {})].flatMap(({ value }) => decodeFeed(value).items);
  assert.deepEqual(
    feed.map(({ seq }) => seq),
    oneTo(store.sequence),
    'the feed has a gap',
  );
  assert.deepEqual(
    redo.flatMap(({ commit }) => (commit === null ? [] : [commit])),
    feed,
    'the feed differs from the redo log',
  );

  const count = Number(store.get('crash/counters', Buffer.from('count')) ?? 0);
  const made = new Map<number, Transfer>();
  const replayed = new Map<string, string>();
  for (const { operations } of redo) {
    for (const { family, key, value } of operations) {
      // The notes of the store about itself begin before the log.
      if (family === kernelFamilies.meta) continue;
      const at = `${family} ${key.toString('hex')}`;
      if (value === undefined) replayed.delete(at);
      else replayed.set(at, value.toString('hex'));
      if (family === 'crash/transfers' && value !== undefined)
        made.set(Number(key.readBigUInt64BE()), JSON.parse(value.toString()) as Transfer);
    }
  }
  const stored = [...families, ...Object.values(kernelFamilies)]
    .filter((family) => !logFamilies.has(family) && family !== kernelFamilies.meta)
    .flatMap((family) =>
      Array.from(store.range(family, {}), ({ key, value }): [string, string] => [
        `${family} ${key.toString('hex')}`,
        value.toString('hex'),
      ]),
    );
  assert.deepEqual(new Map(stored), new Map(replayed), 'what is stored is not what the redo log leads to');

  assert.deepEqual([...made.keys()], oneTo(count), 'a transfer is missing or there twice');
  for (const [number, who] of answered) {
    const transfer = made.get(number);
    assert.ok(transfer, `transfer ${number} was acknowledged and is lost`);
    assert.equal(
      `${transfer.writer} ${transfer.round} ${transfer.pid}`,
      who,
      `transfer ${number} is another's`,
    );
  }
  const announced = [...made].filter(([, transfer]) => transfer.announced).map(([number]) => number);
  assert.deepEqual(
    feed.map(({ changes }) => changes[0]?.version),
    announced,
    'the feed does not say what was done',
  );
  if (count > 0 || made.size > 0) checkBalances(store, [...made.values()]);
  assert.equal(
    store.get('crash/counters', Buffer.from('never')),
    undefined,
    'a transaction that threw was kept',
  );

  const unanswered = [...made].filter(([number]) => !answered.has(number));
  // They are on disk now, so that the next crash must not lose them either.
  for (const [number, { writer, round, pid }] of unanswered)
    answered.set(number, `${writer} ${round} ${pid}`);
  return unanswered.length;
}

function checkBalances(store: Store, transfers: readonly Transfer[]): void {
  const balances = Array.from({ length: 50 }, () => 1000);
  for (const { from, to, amount } of transfers) {
    balances[from] = (balances[from] as number) - amount;
    balances[to] = (balances[to] as number) + amount;
  }
  const found = balances.map((_, account) =>
    Number(store.get('crash/accounts', Buffer.from(`account ${account}`))),
  );
  assert.deepEqual(found, balances, 'a transfer is torn');
  assert.equal(
    found.reduce((sum, balance) => sum + balance, 0),
    50 * 1000,
  );
}

function oneTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { rounds: { type: 'string', default: '100' }, engine: { type: 'string', default: 'lmdb' } },
  });
  const rounds = Number(values.rounds);
  const { engine } = values;
  if (!Number.isInteger(rounds) || rounds < 1 || (engine !== 'lmdb' && engine !== 'rocksdb')) {
    process.stderr.write('usage: npm run crash -- [--rounds N] [--engine lmdb|rocksdb]\n');
    process.exitCode = 2;
    return;
  }
  let directory = '';
  try {
    const facts = await crashRounds({
      engine,
      rounds,
      compiled: join(process.cwd(), '.compiled', 'tools', 'src'),
      child: join(process.cwd(), 'test', 'homes', 'directory', 'kernel', 'crash-child.mjs'),
      onDirectory: (made) => (directory = made),
      onRound: (round, { acknowledged }) => {
        if (process.stderr.isTTY || round % 50 === 0)
          process.stderr.write(
            `${process.stderr.isTTY ? '\r' : ''}round ${round} of ${rounds}, ${acknowledged} transactions acknowledged${process.stderr.isTTY ? '' : '\n'}`,
          );
      },
    });
    const told = `${facts.acknowledged} transactions acknowledged, all there; ${facts.unanswered} more on disk whose answer was lost; ${facts.killedEarly} kills while opening`;
    process.stdout.write(
      `\n${engine}: ${rounds} rounds, 0 lost, 0 torn, feed and redo log without gaps (${told})\n`,
    );
  } catch (error) {
    process.stderr.write(`\n${engine}: what is left is in ${directory}\n`);
    throw error;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
