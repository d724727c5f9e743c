import { randomUUID } from 'node:crypto';
import { describe, expect, test, vi } from 'vitest';
import { generations } from './client.js';
import { useStdio } from './stdio.js';

const stdio = useStdio();

function call(id: number, name: string, input: object): string {
  return `${JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: input } })}\n`;
}

test('several clients that start at once share one server and lose nothing', { timeout: 120_000 }, async () => {
  const data = await stdio.data();
  const names = ['ada', 'bea', 'cyd'];
  const clients = await Promise.all(names.map((name, index) => stdio.connect(data, ['--agent', name], generations[index % 2])));
  const owner = await stdio.ownerOf(data);
  const each = 40;
  await Promise.all(
    clients.flatMap((client, index) =>
      Array.from({ length: each }, async (_, step) => {
        await client.ok('remember', { key: 'count', value: 1, how: 'add' });
        await client.ok('remember', { key: `${names[index]}/${step}`, value: step });
      }),
    ),
  );
  const first = clients[0] as (typeof clients)[number];
  expect((await first.ok('recall', { key: 'count' })).items[0].value).toBe(each * clients.length);
  for (const name of names) expect((await first.ok('list', { namespace: 'default', prefix: `${name}/` })).items.length).toBe(each);
  expect((await first.ok('recall', { key: 'bea/7' })).items[0].createdByAgent).toBe('bea');
  expect(await stdio.ownerOf(data)).toBe(owner);
  await Promise.all(clients.map((client) => client.close()));
});

describe.each(generations)('a client of the %s protocol', (generation) => {
  test('is told of changes through the pipe', { timeout: 60_000 }, async () => {
    const data = await stdio.data();
    const client = await stdio.connect(data, ['--user', 'ada'], generation);
    const updated: string[] = [];
    client.client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
      updated.push(params.uri);
    });
    const uri = 'stoa://data/default/watched';
    const subscription = generation === 'modern' ? await client.client.listen({ resourceSubscriptions: [uri] }) : await client.client.subscribeResource({ uri });
    // The session's stream opens beside the requests: write until it is heard.
    await vi.waitFor(async () => {
      await client.ok('remember', { key: 'watched', value: 1 });
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(updated).toContain(uri);
    }, 20_000);
    if (subscription !== undefined && 'close' in subscription && typeof subscription.close === 'function') await subscription.close();
    await client.close();
  });

  test('goes on after its server was killed: another one is started', { timeout: 60_000 }, async () => {
    const data = await stdio.data();
    const client = await stdio.connect(data, ['--agent', 'scout'], generation);
    await client.ok('remember', { key: 'before', value: 'kept' });
    const first = await stdio.ownerOf(data);
    process.kill(first, 'SIGKILL');
    await vi.waitFor(async () => {
      expect((await client.ok('recall', { key: 'before' })).items[0].value).toBe('kept');
    }, 30_000);
    expect(await stdio.ownerOf(data)).not.toBe(first);
    await client.close();
  });
});

describe('the pipe', () => {
  test('carries nothing but the protocol, also for lines that are none', { timeout: 60_000 }, async () => {
    const data = await stdio.data();
    const { status, stdout, stderr } = await stdio.feed(data, `not json\n\n42\n${call(1, 'remember', { key: 'k', value: 'ä💥' })}${call(2, 'no-such', {})}`);
    const answers = stdout.trim().split('\n').map((line) => JSON.parse(line));
    expect(status, stderr).toBe(0);
    expect(answers.filter(({ error }) => error?.code === -32_700).length).toBe(2);
    expect(answers.find(({ id }) => id === 1).result.structuredContent).toMatchObject({ key: 'k', version: 1 });
    expect(answers.find(({ id }) => id === 2).error.code).toBe(-32_602);
    expect(answers.length).toBe(4);
  });

  test('acts for the user and agent that it is given', { timeout: 60_000 }, async () => {
    const data = await stdio.data();
    const key = randomUUID();
    await stdio.feed(data, call(1, 'remember', { key, value: 1 }), ['--user', 'ada', '--agent', 'späher']);
    const own = await stdio.feed(data, call(1, 'recall', { key }), ['--user', 'ada']);
    expect(JSON.parse(own.stdout).result.structuredContent.items[0].createdByAgent).toBe('späher');
    const other = await stdio.feed(data, call(1, 'recall', { key }), ['--user', 'bob']);
    expect(JSON.parse(other.stdout).result.structuredContent.missing).toEqual([key]);
  });

  test('says in the answer what is wrong with the credentials', { timeout: 60_000 }, async () => {
    const data = await stdio.data();
    const { stdout } = await stdio.feed(data, call(1, 'list', {}), ['--token', 'wrong']);
    expect(JSON.parse(stdout)).toMatchObject({ id: 1, error: { data: { code: 'unauthenticated' } } });
  });

  test('ends with an error when no server can be had', { timeout: 60_000 }, async () => {
    const { status, stdout, stderr } = await stdio.feed('/dev/null/nowhere', call(1, 'list', {}));
    expect(stdout).toBe('');
    expect(status).not.toBe(0);
    expect(stderr).not.toBe('');
  });
});
