/** A process that takes the lock when a line arrives, says how it went, and lives until its input ends. */
import { once } from 'node:events';
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [compiled, dataDir, url] = process.argv.slice(2);
const { acquireLock } = await import(`${compiled}/homes/directory/kernel/directory/lock.js`);

const lines = createInterface({ input: process.stdin });
writeSync(1, 'ready\n');
await once(lines, 'line');
try {
  const lock = await acquireLock(dataDir, { url });
  writeSync(1, `${JSON.stringify({ held: lock.owner })}\n`);
} catch (thrown) {
  writeSync(
    1,
    `${JSON.stringify({ refused: { code: thrown.code, message: thrown.message, fix: thrown.fix } })}\n`,
  );
}
await once(lines, 'close');
