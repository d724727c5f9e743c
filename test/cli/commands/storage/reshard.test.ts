/** `stoa reshard`. */
import { expect, test } from 'vitest';
import { useCommands } from '../../command-host.js';

const { stoa, path } = useCommands();

test('re-sharding reports missing options and changes no existing directory', async () => {
  const from = path('one-shard');
  await stoa(['agents', 'create', 'first', '--data', from]);
  expect((await stoa(['reshard', '--from', from, '--to', path('four'), '--shards', '0'])).status).toBe(2);
  expect((await stoa(['reshard', '--from', from, '--shards', '4', '--json'])).error().fix).toContain('--to');
  expect((await stoa(['reshard', '--from', from, '--to', from, '--shards', '4'])).status).toBe(5);
  expect(
    (await stoa(['reshard', '--from', path('nowhere'), '--to', path('four'), '--shards', '4'])).status,
  ).toBe(4);
});
