/** Opens a data directory and says each step of bringing it up to date; somebody else kills it meanwhile. */
import { writeSync } from 'node:fs';
import { join } from 'node:path';

const [compiled, data, atMs] = process.argv.slice(2);
const { openStoa } = await import(join(compiled, 'index.js'));
const stoa = await openStoa({
  data,
  clock: () => Number(atMs),
  limits: { migrationStepRowsMax: 3 },
  onMigration: ({ stage, done }) => writeSync(1, `${stage} ${done}\n`),
});
await stoa.close();
