/** The operator's token is replaced while other servers run. */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { useProgram } from '../cli/program.js';
import { sharedHome } from '../servers/shared.js';
import { eventually } from '../until.js';

const program = useProgram();

async function statusWith(url: string, token: string): Promise<number> {
  const answer = await fetch(`${url}/v1/status`, { headers: { authorization: `Bearer ${token}` } });
  await answer.text();
  return answer.status;
}

test('a new token of the operator is valid on all running servers, and the old one on none', async () => {
  const { args, environment } = await sharedHome();
  const [old, next] = [environment.STOA_OPERATOR_TOKEN, randomBytes(32).toString('hex')];
  const up = (token: string) =>
    program.up(program.path('none'), args, { ...environment, STOA_OPERATOR_TOKEN: token });
  const running = await Promise.all([up(old), up(old)]);
  for (const { url } of running) {
    expect(await statusWith(url, old)).toBe(200);
    expect(await statusWith(url, next)).toBe(401);
  }
  const stream = await fetch(`${running[0].url}/v1/changes`, {
    headers: { authorization: `Bearer ${old}`, accept: 'text/event-stream' },
  });
  expect(stream.status).toBe(200);

  const third = await up(next);
  for (const { url } of [...running, third])
    await eventually(async () =>
      expect([await statusWith(url, old), await statusWith(url, next)]).toEqual([401, 200]),
    );
  // The stream of the old token ends.
  await expect(stream.text()).resolves.toBeTypeOf('string');
});
