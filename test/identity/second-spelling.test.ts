import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { userKey } from '../../src/identity/user-key.js';
import { type Stoa, openStoa } from '../../src/index.js';

let stoa: Stoa;
const ann = operatorCaller('ann');
/** 64 hex digits are read as 32 bytes: here, the hash of the readable id. */
const disguised = operatorCaller(userKey('ann').toString('hex'));
const refused = { code: 'conflict' };

beforeAll(async () => {
  stoa = await openStoa({ data: '', engine: 'memory' });
  await stoa.data.set(ann, 'notes', 'secret', 'hers');
  await stoa.workspaces.createWorkspace(ann, { name: 'hers' });
});
afterAll(() => stoa.close());

test("the library refuses reading a user's documents under the hash of the user id", async () => {
  await expect(stoa.data.get(disguised, 'notes', 'secret')).rejects.toMatchObject(refused);
  await expect(stoa.data.listKeys(disguised, 'notes', {})).rejects.toMatchObject(refused);
  await expect(stoa.data.listNamespaces(disguised, {})).rejects.toMatchObject(refused);
  await expect(stoa.data.set(disguised, 'notes', 'secret', 'mine')).rejects.toMatchObject(refused);
  expect(await stoa.data.get(ann, 'notes', 'secret')).toBe('hers');
});

test('the library refuses listing and creating workspaces under that hash', async () => {
  expect((await stoa.workspaces.listWorkspaces(disguised, {})).items).toEqual([]);
  await expect(stoa.workspaces.createWorkspace(disguised, { name: 'mine' })).rejects.toMatchObject(refused);
});
