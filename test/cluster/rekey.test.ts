/** Re-keying with several servers: no server may get a secret that it cannot read. */
import { afterEach, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { sharedHome, sharedKeys } from '../servers/shared.js';

const ada = operatorCaller('ada');
const newKeys = `${'0b'.repeat(32)},${sharedKeys}`;
const opened = new Set<Stoa>();
afterEach(async () => {
  for (const stoa of opened) await stoa.close();
  opened.clear();
});

it('is refused while a live server does not have the new key, and works when it has left', async () => {
  const { options } = await sharedHome();
  const open = async (secretKeys: string): Promise<Stoa> => {
    const stoa = await openStoa({ ...options, secretKeys, onError: () => undefined });
    opened.add(stoa);
    return stoa;
  };
  const old = await open(sharedKeys);
  const { id } = await old.workspaces.createWorkspace(ada, { name: 'sealed', claude_key: 'sk-1' });
  const first = await open(newKeys);
  await expect(first.secrets.rekey()).rejects.toMatchObject({ code: 'conflict' });
  expect(await old.workspaces.revealWorkspaceKey(ada, id)).toBe('sk-1');
  opened.delete(old);
  await old.close();
  await expect
    .poll(() => first.secrets.rekey().catch(() => null))
    .toMatchObject({ resealed: { workspaces: 1 } });
  expect(await first.workspaces.revealWorkspaceKey(ada, id)).toBe('sk-1');
  await expect(open(sharedKeys)).rejects.toMatchObject({ code: 'invalid_config' });
});

it('of two servers that start together on a new database with different keys, one is refused', async () => {
  const { options } = await sharedHome();
  const [newKey = ''] = newKeys.split(',');
  const outcomes = await Promise.allSettled(
    [sharedKeys, newKey].map((secretKeys) => openStoa({ ...options, secretKeys, onError: () => undefined })),
  );
  for (const outcome of outcomes) if (outcome.status === 'fulfilled') await outcome.value.close();
  const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
  expect(refused).toMatchObject([{ code: 'invalid_config' }]);
});

it('a key that encrypts no secret any more can be removed, and no other', async () => {
  const { options } = await sharedHome();
  const during = async <Result>(
    secretKeys: string,
    act: (stoa: Stoa) => Promise<Result>,
  ): Promise<Result> => {
    const stoa = await openStoa({ ...options, secretKeys, onError: () => undefined });
    try {
      return await act(stoa);
    } finally {
      await stoa.close();
    }
  };
  const [newKey = ''] = newKeys.split(',');
  const { id } = await during(sharedKeys, async ({ workspaces, messaging }) => {
    // The seed of the identity that the server keeps is a secret too.
    await messaging.rooms.post(
      { ...ada, agent: 'sealer' },
      { room: 'sealed', byName: true },
      () => ({ body: 'x', pid: '' }),
      null,
    );
    return workspaces.createWorkspace(ada, { name: 'sealed', claude_key: 'sk-1' });
  });
  const alone = (): Promise<string | null> =>
    during(newKey, ({ workspaces }) => workspaces.revealWorkspaceKey(ada, id));
  await expect(alone()).rejects.toMatchObject({ code: 'invalid_config' });
  await during(newKeys, async ({ workspaces }) => {
    await workspaces.updateWorkspace(ada, id, { claude_key: 'sk-2' });
    // The identity still has the old key.
    await expect(alone()).rejects.toMatchObject({ code: 'invalid_config' });
  });
  await during(newKeys, ({ secrets }) => secrets.rekey());
  await during(`${sharedKeys},${newKey}`, () =>
    // A live server still encrypts with the old key.
    expect(alone()).rejects.toMatchObject({ code: 'invalid_config' }),
  );
  expect(await alone()).toBe('sk-2');
});
