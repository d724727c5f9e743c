/** A process that moves money between accounts, 64 transfers at a time, and says when each is acknowledged. */
import { writeSync } from 'node:fs';

const [compiled, engine, dataDir] = process.argv.slice(2);
const { openKernel } = await import(`${compiled}/homes/directory/kernel/open-kernel.js`);
const { backup } = await import(`${compiled}/homes/directory/kernel/backup/backup.js`);
const { hasBackups } = await import(`${compiled}/homes/directory/kernel/backup/marks.js`);
const { limitsWith } = await import(`${compiled}/core/settings/limits.js`);

const [accounts, transfers, counters] = ['crash/accounts', 'crash/transfers', 'crash/counters'];
const accountsCount = 50;
const countKey = Buffer.from('count');

const kernel = await openKernel({
  dataDir,
  engine,
  families: [accounts, transfers, counters],
  limits: limitsWith(),
});
const store = kernel.root;
// The redo log, which is checked after the kill, begins with the first backup.
if (!hasBackups(store)) await backup(kernel, { directory: `${dataDir}/backups`, kind: 'full' });
kernel.handleTimer('crash', (tx, reference) =>
  tx.put(counters, Buffer.from(`timer ${reference.toString()}`), Buffer.from('done')),
);
kernel.start();

await store.transact((tx) => {
  if (tx.get(counters, countKey) !== undefined) return;
  tx.put(counters, countKey, Buffer.from('0'));
  for (let account = 0; account < accountsCount; account += 1)
    tx.put(accounts, accountKey(account), Buffer.from('1000'));
});
say('ready\n');
for (let writer = 0; writer < 64; writer += 1) void write(writer);

async function write(writer) {
  for (let round = 0; ; round += 1) {
    if (round % 20 === 19) await store.transact(transferAndThrow).catch(ignoreTheThrow);
    const number = await store.transact((tx) => transfer(tx, writer, round));
    say(`${number} ${writer} ${round}\n`);
  }
}

/** Takes a number, moves an amount, notes the transfer, and announces three of four. */
function transfer(tx, writer, round) {
  const number = Number(tx.get(counters, countKey)) + 1;
  const from = Math.floor(Math.random() * accountsCount);
  const to = (from + 1 + Math.floor(Math.random() * (accountsCount - 1))) % accountsCount;
  const amount = Math.floor(Math.random() * 10);
  const announced = number % 4 !== 0;
  move(tx, from, -amount);
  move(tx, to, amount);
  tx.put(counters, countKey, Buffer.from(String(number)));
  tx.put(
    transfers,
    transferKey(number),
    Buffer.from(JSON.stringify({ writer, round, from, to, amount, announced, pid: process.pid })),
  );
  // Old notes go, so that the crash also falls on deletions and on their traces in the logs.
  if (number > 2000) tx.delete(transfers, transferKey(number - 2000));
  if (announced)
    tx.change({ domain: 'data', kind: 'transfer.made', id: String(number), user: 'ann', version: number });
  if (number % 50 === 0)
    tx.schedule({ atMs: tx.nowMs, kind: 'crash', reference: Buffer.from(String(number)) });
  return number;
}

function transferAndThrow(tx) {
  transfer(tx, -1, -1);
  tx.put(counters, Buffer.from('never'), Buffer.from('seen'));
  throw new RangeError('nothing of this may be kept');
}

function ignoreTheThrow(error) {
  if (!(error instanceof RangeError)) throw error;
}

function move(tx, account, amount) {
  tx.put(
    accounts,
    accountKey(account),
    Buffer.from(String(Number(tx.get(accounts, accountKey(account))) + amount)),
  );
}

function accountKey(account) {
  return Buffer.from(`account ${account}`);
}

function transferKey(number) {
  const key = Buffer.alloc(8);
  key.writeBigUInt64BE(BigInt(number));
  return key;
}

/** At once and whole: what was said must have left the process before it can be killed. */
function say(text) {
  for (let rest = Buffer.from(text); rest.length > 0;) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}
