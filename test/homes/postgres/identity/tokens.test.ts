/** Tokens on PostgreSQL, and what only several servers on one database show. */
import { afterEach, describe, expect, test } from 'vitest';
import { operatorCaller } from '../../../../src/core/caller.js';
import { messageOf } from '../../../../src/core/errors.js';
import { type Stoa, openStoa } from '../../../../src/index.js';
import { describeTokens } from '../../../identity/token-suite.js';
import { userCaller } from '../../../../src/registry/conformance/bench.js';
import { sharedHome } from '../../../servers/shared.js';
import { type PostgresTokenBench, openPostgresTokens } from './open-tokens.js';

describeTokens('PostgreSQL', openPostgresTokens);

describe('tokens of several servers on one PostgreSQL', () => {
  const operator = operatorCaller();
  let benches: PostgresTokenBench[] = [];
  afterEach(() => Promise.all(benches.map((bench) => bench.close())));

  async function openTwo(): Promise<[PostgresTokenBench, PostgresTokenBench]> {
    const first = await openPostgresTokens();
    const second = await openPostgresTokens(undefined, first.registry.url);
    benches = [first, second];
    return [first, second];
  }

  test('one that was revoked through a server is refused by the others', async () => {
    const [here, there] = await openTwo();
    const { token, token_id } = await here.identity.createToken(operator, 'ada', {}, null);
    expect(await there.identity.authenticate(token)).toMatchObject({ user: 'ada' });
    await here.identity.revokeTokens(operator, 'ada', token_id);
    await expect.poll(() => there.identity.isLive({ tokenId: token_id })).toBe(false);
    await expect(async () => there.identity.authenticate(token)).rejects.toMatchObject({
      code: 'unauthenticated',
    });
  });

  test('what a server remembers does not count while it hears nothing', async () => {
    const [here, there] = await openTwo();
    const { token, token_id } = await here.identity.createToken(operator, 'ada', {}, null);
    await there.identity.authenticate(token);
    // Each server hears the beats of all.
    for (const { home } of benches) await home.removals.close();
    // A beat that was sent before may still be on its way.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await expect.poll(() => there.home.isCacheValid()).toBe(false);
    let lookedUp = 0;
    const find = there.port.findToken.bind(there.port);
    there.port.findToken = (id) => {
      lookedUp += 1;
      return find(id);
    };
    await there.identity.authenticate(token);
    await there.identity.authenticate(token);
    expect(lookedUp).toBe(2);
    await here.identity.revokeTokens(operator, 'ada', token_id);
    await expect(async () => there.identity.authenticate(token)).rejects.toMatchObject({
      code: 'unauthenticated',
    });
  });

  test('a write with a removed token is refused, even if the server still has the token in memory', async () => {
    const [here, there] = await openTwo();
    const { token_id } = await here.identity.createToken(operator, 'ada', {}, null);
    const caller = userCaller('ada', { tokenId: token_id });
    const { steps } = there.registry.registry;
    await there.writer.write({ caller }, [steps.createAgent(caller, { name: 'first' })]);
    await here.identity.revokeTokens(operator, 'ada', token_id);
    await expect(
      there.writer.write({ caller }, [steps.createAgent(caller, { name: 'second' })]),
    ).rejects.toMatchObject({ code: 'unauthenticated' });
    expect((await there.registry.registry.listAgents(userCaller('ada'))).items).toHaveLength(1);
    const { token_id: expiring } = await here.identity.createToken(operator, 'ada', { expires_in: 60 }, null);
    there.clock.nowMs += 61_000;
    await expect(
      there.writer.write({ caller: { ...caller, tokenId: expiring } }, [
        steps.createAgent(caller, { name: 'third' }),
      ]),
    ).rejects.toMatchObject({ code: 'unauthenticated' });
  });
});

test('the token of the operator that a server is started with counts on servers without one, and another replaces it visibly', async () => {
  const { options } = await sharedHome();
  const warnings: string[] = [];
  const opened: Stoa[] = [];
  const onError = (error: unknown): number => warnings.push(messageOf(error));
  const open = async (operatorToken: string | undefined) => {
    const stoa = await openStoa({ ...options, operatorToken, onError });
    opened.push(stoa);
    return stoa;
  };
  const other = `${options.operatorToken}, and another`.replaceAll(' ', '-');
  try {
    await open(options.operatorToken);
    await open(options.operatorToken);
    const without = await open(undefined);
    expect(await without.identity.authenticate(options.operatorToken)).toMatchObject({ kind: 'operator' });
    expect(warnings).toEqual([]);
    await open(other);
    expect(warnings).toEqual([expect.stringMatching(/^STOA_OPERATOR_TOKEN differs from the token/)]);
    expect(warnings.join()).not.toContain(other);
    const later = await open(undefined);
    expect(await later.identity.authenticate(other)).toMatchObject({ kind: 'operator' });
    await expect(async () => later.identity.authenticate(options.operatorToken)).rejects.toMatchObject({
      code: 'unauthenticated',
    });
  } finally {
    await Promise.all(opened.map((stoa) => stoa.close()));
  }
});
