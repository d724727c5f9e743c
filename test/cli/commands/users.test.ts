/** `stoa users` and `stoa token`. */
import { describe, expect, test } from 'vitest';
import { type Agent, useServedProgram } from '../served.js';

const { stoa, server, run, json } = useServedProgram();

describe('tokens', () => {
  test('are created for a user, reach only that user, and can be revoked', async () => {
    const created = await json<{ token: string; token_id: string }>(
      'token',
      'create',
      '--user',
      'tom',
      '--name',
      'laptop',
      '--expires-in',
      '1h',
    );
    await json('agents', 'create', 'mine', '--user', 'tom');
    const as = (...args: string[]) =>
      stoa([...args, '--url', server().url, '--json'], { environment: { STOA_TOKEN: created.token } });
    expect((await as('agents', 'ls')).json<{ items: Agent[] }>().items.map((agent) => agent.name)).toEqual([
      'mine',
    ]);
    expect((await as('users', 'ls')).status).toBe(3);
    expect(JSON.stringify(await json('token', 'ls', '--user', 'tom'))).not.toContain(created.token);
    expect(await json('token', 'revoke', created.token_id, '--user', 'tom')).toEqual({
      revoked: [created.token_id],
    });
    expect((await as('agents', 'ls')).status).toBe(3);
  });

  test('that only read cannot write', async () => {
    const { token, token_id } = await json<{ token: string; token_id: string }>(
      'token',
      'create',
      '--user',
      'rea',
      '--read-only',
      '--namespace',
      'a',
      '--namespace',
      'b',
    );
    expect((await run('token', 'ls', '--user', 'rea')).stdout).toMatch(
      new RegExp(`^${token_id.slice(-8)} .* false +a, b `, 'm'),
    );
    expect((await stoa(['agents', 'create', 'x', '--url', server().url, '--token', token])).status).toBe(3);
  });

  test('are never created without a user', async () => {
    const refused = await run('token', 'create', '--json');
    expect(refused.status).toBe(2);
    expect(refused.error().fix).toContain('--user');
  });
});

describe('users', () => {
  test('are listed and given a quota, which holds', async () => {
    await json('agents', 'create', 'first', '--user', 'quo');
    expect(
      await json('users', 'set', 'quo', '--agents-max', '1', '--email', 'quo@example.org'),
    ).toMatchObject({ user: 'quo', agents_max: 1, email: 'quo@example.org' });
    expect((await run('agents', 'create', 'second', '--user', 'quo')).status).toBe(5);
    expect(await json('users', 'set', 'quo', '--agents-max', 'none')).not.toMatchObject({ agents_max: 1 });
    expect((await run('users', 'set', 'quo', '--json')).error()).toMatchObject({
      code: 'invalid_request',
      fix: 'Add one of --email, --agents-max.',
    });
    expect((await run('users', 'ls')).stdout).toMatch(/^quo +1\/\d+ +quo@example\.org /m);
    expect(
      (await json<{ items: { user: string }[] }>('users', 'ls')).items.map(({ user }) => user),
    ).toContain('quo');
  });

  test('can have any name, also one that looks like the base64url of another name', async () => {
    expect(await json('users', 'set', '~Ym9i', '--email', 'tilde@example.org')).toMatchObject({
      user: '~Ym9i',
    });
    expect((await json<{ items: object[] }>('token', 'ls', '--user', '..')).items).toEqual([]);
  });
});
