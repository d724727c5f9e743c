import { kernelOf } from '../../kernel-of.js';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { userKey } from '../../../src/identity/user-key.js';
import { Running } from '../running.js';

let running: Running;
let nowMs = Date.now();
const data = mkdtempSync(join(tmpdir(), 'stoa-tokens-'));

beforeAll(async () => {
  running = await Running.start({
    data,
    engine: 'lmdb',
    clock: () => nowMs,
    limits: { tokensPerUserMax: 5 },
  });
});
afterAll(async () => {
  await running.stop();
  rmSync(data, { recursive: true, force: true });
});

async function newToken(user: string, body: object = {}) {
  const reply = await running.ask('POST', `/v1/users/${user}/tokens`, { as: running.operator, body });
  expect(reply.status, reply.text).toBe(201);
  return reply.json;
}

const status = async (token: string) => (await running.ask('GET', '/v1/agents', { as: token })).status;

test("the operator's token is in a file that only its owner can read", async () => {
  const path = join(data, 'operator.token');
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect((await readFile(path, 'utf8')).trim()).toBe(running.operator);
  expect(running.operator).toMatch(/^stoa_operator_[A-Za-z0-9_-]{43}$/);
});

test('no secret is in the data directory beside that file', async () => {
  const { token, token_id } = await newToken('secretive');
  await kernelOf(running.stoa).root.flush();
  const stored = await readFile(join(data, 'shard-00', 'db', 'data.mdb')).catch(() => Buffer.alloc(0));
  expect(stored.length).toBeGreaterThan(0);
  expect(stored.includes(Buffer.from(token.slice(-43)))).toBe(false);
  expect(stored.includes(Buffer.from(token_id))).toBe(true);
});

test('a token works until it is revoked, also when it was used before', async () => {
  const { token, token_id } = await newToken('rita');
  expect(await status(token)).toBe(200);
  const revoked = await running.ask('DELETE', `/v1/users/rita/tokens?token=${token_id}`, {
    as: running.operator,
  });
  expect(revoked.json).toEqual({ revoked: [token_id] });
  expect(await status(token)).toBe(401);
  expect(
    (await running.ask('DELETE', `/v1/users/rita/tokens?token=${token_id}`, { as: running.operator })).status,
  ).toBe(404);
});

test('a token cannot be revoked through another user', async () => {
  const { token, token_id } = await newToken('rosa');
  expect(
    (await running.ask('DELETE', `/v1/users/other/tokens?token=${token_id}`, { as: running.operator }))
      .status,
  ).toBe(404);
  expect(await status(token)).toBe(200);
});

test('the hash of a user id does not give access to that user in any domain', async () => {
  const owner = 'olga';
  const digits = userKey(owner).toString('hex');
  const early = (await newToken(digits)).token;
  const put = await running.ask('PUT', '/v1/data/notes/plan', {
    as: running.operator,
    headers: { 'stoa-user': owner },
    body: { value: 'hers alone' },
  });
  expect(put.status).toBe(201);
  const tries = [{ as: early }, { as: running.operator, headers: { 'stoa-user': digits } }];
  for (const caller of tries) {
    for (const path of ['/v1/data', '/v1/data/notes/plan', '/v1/agents', '/v1/workspaces', '/v1/changes']) {
      const reply = await running.ask('GET', path, caller);
      expect([path, reply.status], reply.text).toEqual([path, 409]);
    }
    expect(
      (await running.ask('PUT', '/v1/data/notes/plan', { ...caller, body: { value: 'theirs' } })).status,
    ).toBe(409);
    expect((await running.ask('DELETE', '/v1/data/notes', caller)).status).toBe(409);
  }
  expect(
    (await running.ask('POST', `/v1/users/${digits}/tokens`, { as: running.operator, body: {} })).json.code,
  ).toBe('conflict');
  const kept = await running.ask('GET', '/v1/data/notes/plan', {
    as: running.operator,
    headers: { 'stoa-user': owner },
  });
  expect(kept.json.value).toBe('hers alone');
});

test('all tokens of a user can be revoked at once', async () => {
  const tokens = [await newToken('sam'), await newToken('sam')];
  for (const { token } of tokens) expect(await status(token)).toBe(200);
  await running.ask('DELETE', '/v1/users/sam/tokens?token=all', { as: running.operator });
  for (const { token } of tokens) expect(await status(token)).toBe(401);
});

test('revoking without a token id or "all" is refused', async () => {
  expect((await running.ask('DELETE', '/v1/users/sam/tokens', { as: running.operator })).status).toBe(400);
});

test('a token expires, also when it was used before', async () => {
  const { token, expires_at } = await newToken('tim', { expires_in: 60 });
  expect(expires_at).toBe(new Date(nowMs + 60_000).toISOString());
  expect(await status(token)).toBe(200);
  nowMs += 59_999;
  expect(await status(token)).toBe(200);
  nowMs += 1;
  expect(await status(token)).toBe(401);
  await kernelOf(running.stoa).sweep();
  expect((await running.ask('GET', '/v1/users/tim/tokens', { as: running.operator })).json.items).toEqual([]);
});

test.each([
  [{ expires_at: 1 }],
  [{ expires_at: 9e12 }],
  [{ expires_at: '1970-01-01T00:00:00.001Z' }],
  [{ expires_in: 0 }],
  [{ expires_in: 5, expires_at: '2255-03-14T16:00:00.000Z' }],
  [{ scopes: { admin: true } }],
  [{ name: 'n'.repeat(101) }],
])('%j is refused', async (body) => {
  expect((await running.ask('POST', '/v1/users/tim/tokens', { as: running.operator, body })).status).toBe(
    400,
  );
});

test('the number of tokens of a user is limited', async () => {
  for (let made = 0; made < 5; made += 1) await newToken('ulla');
  const reply = await running.ask('POST', '/v1/users/ulla/tokens', { as: running.operator, body: {} });
  expect(reply.json).toMatchObject({ code: 'quota_exceeded', status: 409 });
});

test('lists page through every token once, and show no secret', async () => {
  const ids: string[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const { json, text } = await running.ask(
      'GET',
      `/v1/users/ulla/tokens?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`,
      { as: running.operator },
    );
    ids.push(...json.items.map(({ token_id }: { token_id: string }) => token_id));
    expect(text).not.toMatch(/hash|stoa_/);
    cursor = json.next_cursor;
  }
  expect(ids).toHaveLength(5);
  expect(ids).toEqual(ids.toSorted());
});

test('the last use shows in the list', async () => {
  const { token } = await newToken('vera');
  expect(
    (await running.ask('GET', '/v1/users/vera/tokens', { as: running.operator })).json.items[0].last_used_at,
  ).toBeNull();
  await status(token);
  await running.stoa.identity.flush();
  expect(
    (await running.ask('GET', '/v1/users/vera/tokens', { as: running.operator })).json.items[0].last_used_at,
  ).toBe(new Date(nowMs).toISOString());
});

describe('invalid credentials', () => {
  test.each([
    ['another secret with a known id', (token: string) => `${token.slice(0, -4)}AAAA`],
    ['the id alone', (token: string) => token.slice(0, 26)],
    ['a longer one', (token: string) => `${token}A`],
    ["an operator token of somebody's making", () => `stoa_operator_${'A'.repeat(43)}`],
    ['nothing', () => ''],
    ['nonsense', () => 'nonsense'],
  ])('%s is 401', async (_name, change) => {
    const { token } = await newToken('walter');
    expect(await status(token)).toBe(200);
    expect(await status(change(token))).toBe(401);
    expect(await status(token)).toBe(200);
    await running.ask('DELETE', '/v1/users/walter/tokens?token=all', { as: running.operator });
  });

  test.each(['Basic dXNlcjpwYXNz', 'bearer', 'Token x'])('"%s" is 401', async (authorization) => {
    expect((await running.ask('GET', '/v1/agents', { headers: { authorization } })).status).toBe(401);
  });
});

test('only the operator acts for another user', async () => {
  const { token } = await newToken('xaver');
  expect(
    (await running.ask('GET', '/v1/agents', { as: token, headers: { 'stoa-user': 'bob' } })).status,
  ).toBe(403);
  expect(
    (await running.ask('GET', '/v1/agents', { as: token, headers: { 'stoa-user': 'xaver' } })).status,
  ).toBe(200);
});

test('a signed agent has its own name', async () => {
  const as = { 'x-test-agent': '0'.repeat(64) };
  expect((await running.ask('GET', '/v1/agents', { as, headers: { 'stoa-agent': 'other' } })).status).toBe(
    403,
  );
  expect((await running.ask('GET', '/v1/agents', { as, headers: { 'stoa-agent': 'signed' } })).status).toBe(
    200,
  );
});

test('a token outlives a restart, and the operator keeps its own', async () => {
  const { token } = await newToken('yara');
  const before = running.operator;
  await running.stop();
  running = await Running.start({ data, engine: 'lmdb', clock: () => nowMs });
  expect(running.operator).toBe(before);
  expect(await status(token)).toBe(200);
});

test('a damaged operator token is refused at start, with a fix', async () => {
  const broken = mkdtempSync(join(tmpdir(), 'stoa-broken-'));
  writeFileSync(join(broken, 'operator.token'), 'hello');
  await expect(Running.start({ data: broken, engine: 'lmdb' })).rejects.toMatchObject({
    code: 'invalid_config',
    fix: expect.stringContaining('Delete the file'),
  });
  rmSync(broken, { recursive: true, force: true });
});

test('a token can be limited only to valid namespaces, and to a bounded number', async () => {
  for (const namespaces of [
    [],
    [''],
    ['a\0b'],
    ['\ud800'],
    ['x'.repeat(257)],
    Array.from({ length: 1_001 }, (_, number) => `n${number}`),
  ]) {
    const reply = await running.ask('POST', '/v1/users/alice/tokens', {
      as: running.operator,
      body: { scopes: { namespaces } },
    });
    expect(reply.json).toMatchObject({
      code: 'invalid_request',
      detail: expect.stringContaining('scopes.namespaces'),
    });
  }
});
