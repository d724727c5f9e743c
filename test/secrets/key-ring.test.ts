/** The key file, the keys from the environment, and what a sealed secret refuses. */
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openKeyRing } from '../../src/secrets/key-ring.js';
import { Sealer } from '../../src/secrets/sealer.js';
import { openSecrets } from '../../src/secrets/secrets.js';

let directory: string;
let file: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-secrets-'));
  file = join(directory, 'secret.keys');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it('the first start makes a key file that only its owner can read', async () => {
  const first = await openKeyRing({ file });
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect((await openKeyRing({ file })).currentId).toBe(first.currentId);
});

it('a key file that others can read gets mode 0600', async () => {
  await openKeyRing({ file });
  await chmod(file, 0o644);
  await openKeyRing({ file });
  expect((await stat(file)).mode & 0o777).toBe(0o600);
});

it.each(['', '{}', 'no json', '{"current":"a","keys":{}}', '{"current":"a","keys":{"a":"c2hvcnQ="}}'])(
  'a damaged key file is refused, not replaced: %j',
  async (content) => {
    await writeFile(file, content);
    await expect(openKeyRing({ file })).rejects.toMatchObject({ code: 'damaged_data' });
    expect(await readFile(file, 'utf8')).toBe(content);
  },
);

it('a secret can be decrypted only under the same id, and every encryption differs', async () => {
  const sealer = new Sealer(await openKeyRing({ file }));
  const sealed = sealer.seal('sk-ant-1', 'ws_1');
  expect(sealed).toMatch(/^enc:v1:[0-9a-f]+:[\w-]+$/);
  expect(sealed).not.toContain('sk-ant');
  expect(sealer.seal('sk-ant-1', 'ws_1')).not.toBe(sealed);
  expect(sealer.open(sealed, 'ws_1')).toBe('sk-ant-1');
  expect(() => sealer.open(sealed, 'ws_2')).toThrow(/altered or belongs to another/);
});

it('a secret with one changed bit cannot be decrypted', async () => {
  const sealer = new Sealer(await openKeyRing({ file }));
  const sealed = sealer.seal('한글 😀', 'ws_1');
  const at = sealed.lastIndexOf(':') + 1;
  const bytes = Buffer.from(sealed.slice(at), 'base64url');
  for (let byte = 0; byte < bytes.length; byte += 1) {
    const altered = Buffer.from(bytes);
    altered[byte]! ^= 1;
    expect(() => sealer.open(sealed.slice(0, at) + altered.toString('base64url'), 'ws_1')).toThrow(/altered/);
  }
  for (const text of ['', 'enc:v1:', 'plain', `${sealed}!`])
    expect(() => sealer.open(text, 'ws_1')).toThrow(/altered/);
});

it('after re-keying old secrets can still be read, also after a restart', async () => {
  const secrets = await openSecrets({ dataDir: directory });
  const sealed = secrets.sealer.seal('old', 'ws_1');
  const { key_id } = await secrets.rekey();
  const again = await openSecrets({ dataDir: directory });
  expect(again.ring.currentId).toBe(key_id);
  expect(again.sealer.isStale(sealed)).toBe(true);
  expect(again.sealer.open(sealed, 'ws_1')).toBe('old');
  expect(again.sealer.open(again.sealer.reseal(sealed, 'ws_1'), 'ws_1')).toBe('old');
});

it('keys from the environment come before the file, the first one encrypts', async () => {
  const [newKey, oldKey] = ['11'.repeat(32), Buffer.alloc(32, 7).toString('base64')];
  const old = new Sealer(await openKeyRing({ file: null, environment: oldKey }));
  const sealed = old.seal('x', 'id');
  const ring = await openKeyRing({ file: null, environment: `${newKey}, ${oldKey}` });
  expect(new Sealer(ring).open(sealed, 'id')).toBe('x');
  expect(new Sealer(ring).isStale(sealed)).toBe(true);
  await expect(ring.addKey()).rejects.toMatchObject({ code: 'conflict' });
  const without = new Sealer(await openKeyRing({ file: null, environment: newKey }));
  expect(() => without.open(sealed, 'id')).toThrow(/which the key ring does not have/);
  await expect(openKeyRing({ file: null, environment: 'short' })).rejects.toMatchObject({
    code: 'invalid_config',
  });
});
