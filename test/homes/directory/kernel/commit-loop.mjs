/** A process that commits without end or a number of times, and says "acked N" after each commit. */
import { writeSync } from 'node:fs';

const [compiled, name, dataDir, count = 'Infinity'] = process.argv.slice(2);
const { openEngine } = await import(`${compiled}/homes/directory/kernel/engines/index.js`);
const { storeConfigDefaults } = await import(`${compiled}/core/settings/store-config.js`);

const engine = await openEngine(name, { ...storeConfigDefaults, data_dir: dataDir }, ['documents', 'agents']);
writeSync(1, 'opened\n');
for (let round = 0; round < Number(count); round += 1) {
  const key = Buffer.from(`k${round}`);
  // Two families and several pages, so that half a commit would show.
  const value = Buffer.alloc(10_000, `v${round}`);
  try {
    await engine.commit([
      { family: 'documents', key, value },
      { family: 'agents', key, value: Buffer.from(`v${round}`) },
    ]);
    writeSync(1, `acked ${round}\n`);
  } catch (thrown) {
    const seen = engine.get('documents', key) ?? engine.get('agents', key);
    writeSync(1, `failed ${round} ${thrown.code} ${seen === undefined ? 'unseen' : 'seen'}\n`);
  }
}
await engine.close();
