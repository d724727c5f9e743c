import { kernelOf } from '../kernel-of.js';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { limitsWith } from '../../src/core/settings/limits.js';
import { globalRoomId } from '../../src/messaging/identities/uuid.js';
import { createApp } from '../../src/server/app.js';
import { publicRoom } from '../messaging/public-room.js';

let directory: string;
const opened: Stoa[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-rekey-'));
});
afterEach(async () => {
  for (const stoa of opened.splice(0)) await stoa.close();
  await rm(directory, { recursive: true, force: true });
});

async function open(): Promise<Stoa> {
  await opened.pop()?.close();
  const stoa = await openStoa({
    data: directory,
    limits: limitsWith({ workspaceStepRowsMax: 2 }),
    sweepIntervalMs: 3_600_000,
  });
  opened.push(stoa);
  return stoa;
}

async function post(stoa: Stoa, agent: string): Promise<string> {
  const { rooms, port } = stoa.messaging;
  const { id } = await rooms.post(
    operatorCaller('ada', agent),
    { room: globalRoomId },
    () => ({ body: 'x', pid: '' }),
    null,
  );
  return (await port.message(publicRoom(globalRoomId), id))?.from ?? '';
}

/** With which key each identity that the server keeps is encrypted. */
function keysInUse(stoa: Stoa): string[] {
  return Array.from(
    kernelOf(stoa).root.range('messaging/kept_identities', {}),
    ({ value }) => /enc:v1:(\w+):/.exec(value.toString())?.[1] ?? 'none',
  );
}

it('an interrupted re-keying continues at the next start until nothing needs the old key', async () => {
  const agents = ['a', 'b', 'c', 'd', 'e'];
  const first = await open();
  const authors = [];
  for (const agent of agents) authors.push(await post(first, agent));
  const oldKey = first.secrets.ring.currentId;
  const { sealer } = first.secrets;
  let calls = 0;
  Object.assign(sealer, {
    reseal: (sealed: string, owner: string) => {
      calls += 1;
      if (calls > 3) throw new Error('the machine stopped here');
      return Object.getPrototypeOf(sealer).reseal.call(sealer, sealed, owner) as string;
    },
  });
  await expect(first.secrets.rekey()).rejects.toThrow('the machine stopped here');
  const newKey = first.secrets.ring.currentId;
  expect(keysInUse(first).toSorted()).toEqual([newKey, newKey, oldKey, oldKey, oldKey].toSorted());

  const second = await open();
  await expect.poll(() => keysInUse(second)).toEqual(agents.map(() => newKey));
  await expect.poll(() => existsSync(join(directory, 'secret.rekeying'))).toBe(false);
  for (const [index, agent] of agents.entries()) expect(await post(second, agent)).toBe(authors[index]);

  // A finished run leaves nothing to continue.
  const { key_id, resealed } = await second.secrets.rekey();
  expect([keysInUse(second), resealed['messaging'], existsSync(join(directory, 'secret.rekeying'))]).toEqual([
    agents.map(() => key_id),
    5,
    false,
  ]);
});

it('a re-keying that is interrupted at its beginning still covers workspaces', async () => {
  const first = await open();
  const ada = operatorCaller('ada');
  const workspace = await first.workspaces.createWorkspace(ada, { name: 'sealed', claude_key: 'sk-1' });
  await first.secrets.ring.addKey();
  const newKey = first.secrets.ring.currentId;
  await writeFile(join(directory, 'secret.rekeying'), newKey);

  const second = await open();
  const sealedUnder = async () =>
    /^enc:v1:(\w+):/.exec(
      (await second.workspaces.port.getWorkspace(null, workspace.id, false)).claude_key ?? '',
    )?.[1];
  await expect.poll(sealedUnder).toBe(newKey);
  await expect.poll(() => existsSync(join(directory, 'secret.rekeying'))).toBe(false);
});

it('concurrent re-keyings keep every key: after a restart each secret can be read', async () => {
  const first = await open();
  const ada = operatorCaller('ada');
  const author = await post(first, 'scout');
  const workspace = await first.workspaces.createWorkspace(ada, { name: 'sealed', claude_key: 'sk-1' });
  const app = createApp(first);
  const rekey = () =>
    app.inject({
      method: 'POST',
      url: '/v1/secrets/rekey',
      headers: { host: '127.0.0.1', authorization: `Bearer ${first.operatorToken}` },
    });
  const sealed: string[] = [];
  const answers = await Promise.all(
    Array.from({ length: 8 }, async (_, index) => {
      const answer = await rekey();
      sealed.push(first.secrets.sealer.seal(String(index), 'id'));
      return answer;
    }),
  );
  await app.close();
  expect(answers.map(({ statusCode }) => statusCode)).toEqual(answers.map(() => 200));
  const keys = first.secrets.ring.keyIds;
  expect(keys).toHaveLength(9);

  const second = await open();
  expect(second.secrets.ring.keyIds.toSorted()).toEqual(keys.toSorted());
  expect(second.secrets.ring.currentId).toBe(first.secrets.ring.currentId);
  expect(answers.map((answer): unknown => answer.json().key_id)).toContain(second.secrets.ring.currentId);
  expect(sealed.map((text) => second.secrets.sealer.open(text, 'id'))).toHaveLength(8);
  expect(await post(second, 'scout')).toBe(author);
  expect(await second.workspaces.revealWorkspaceKey(ada, workspace.id)).toBe('sk-1');
});
