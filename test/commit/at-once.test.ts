/** Concurrent commits over HTTP: each is complete, at one position of the feed, and runs once per key. */
import { afterEach, describe, expect, it } from 'vitest';
import { useProgram } from '../cli/program.js';
import { type Reply, Running } from '../server/running.js';

const program = useProgram();
let running: Running | undefined;

afterEach(async () => {
  await running?.stop();
  running = undefined;
});

function commitOf(server: Running, operations: readonly object[], headers: Record<string, string> = {}) {
  return server.ask('POST', '/v1/commit', { as: server.alice, body: { operations }, headers });
}

const roomy = { messageBytesPerMinuteMax: 1e9, addressRequestsPerMinuteMax: 1e6 };

describe.each([
  { shards: 1, where: 'in one shard' },
  { shards: 4, where: 'over several shards' },
])('two commits at once, $where', ({ shards }) => {
  it('are each complete, with message and document at one position of the feed, also for agents that post for the first time', async () => {
    const server = (running = await Running.start({ shards, limits: roomy }));
    const rounds = Array.from({ length: 40 }, (_, round) => round);
    const replies = await Promise.all(
      rounds.flatMap((round) => [
        commitOf(server, [{ op: 'data.set', key: `keyed-${round}`, value: round }], {
          'idempotency-key': `key-${round}`,
        }),
        commitOf(
          server,
          [
            { op: 'data.set', key: `said-${round}`, value: round },
            { op: 'room.post', room: 'global', body: `round ${round}` },
          ],
          { 'stoa-agent': `newcomer-${round}` },
        ),
        // Refused by its last operation: nothing of it may be there.
        commitOf(
          server,
          [
            { op: 'data.set', key: `torn-${round}`, value: round },
            { op: 'room.post', room: 'global', body: 'never', pid: '01ARZ3NDEKTSV4RRFFQ69G5FAV' },
          ],
          { 'stoa-agent': `refused-${round}` },
        ),
      ]),
    );
    const statuses = replies.map(({ status }: Reply) => status);
    expect(statuses).toEqual(rounds.flatMap(() => [200, 200, 422]));
    const { items } = (await server.ask('GET', '/v1/data/default?limit=1000', { as: server.alice })).json;
    const keys = new Set(items.map(({ key }: { key: string }) => key));
    expect(keys.size).toBe(80);
    expect([...keys].filter((key) => String(key).startsWith('torn'))).toEqual([]);
    const bySeq = new Map<unknown, string[]>();
    const feed = (await server.ask('GET', '/v1/changes?limit=1000', { as: server.operator })).json;
    for (const { seq, kind } of feed.items)
      if (kind === 'document.set' || kind === 'message.posted')
        bySeq.set(seq, [...(bySeq.get(seq) ?? []), kind]);
    const shapes = [...bySeq.values()].map((kinds) => kinds.toSorted().join(' '));
    expect(shapes.toSorted()).toEqual([
      ...rounds.map(() => 'document.set'),
      ...rounds.map(() => 'document.set message.posted'),
    ]);
  });

  it('with one key run once and get the same answer', async () => {
    const server = (running = await Running.start({ shards, limits: roomy }));
    const operations = [
      { op: 'data.increment', key: 'count' },
      { op: 'room.post', room: 'global', body: 'once' },
    ];
    const replies = await Promise.all(
      Array.from({ length: 10 }, () =>
        commitOf(server, operations, { 'idempotency-key': 'the-key', 'stoa-agent': 'newcomer' }),
      ),
    );
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set(replies.map(({ json }) => JSON.stringify(json.results))).size).toBe(1);
    const document = await server.ask('GET', '/v1/data/default/count', { as: server.alice });
    expect(document.json.value).toBe(1);
    const { messages } = (await server.ask('GET', '/room/global')).json;
    expect(messages).toHaveLength(1);
  });
});

describe('the answer under an Idempotency-Key', () => {
  it('survives a killed server: every repeat gets it', async () => {
    const data = program.path('data');
    let server = await program.up(data);
    const ask = (number: number): Promise<Response> =>
      fetch(`${server.url}/v1/commit`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${server.token}`,
          'content-type': 'application/json',
          'stoa-user': 'ada',
          'idempotency-key': `key-${number}`,
        },
        body: JSON.stringify({ operations: [{ op: 'data.increment', key: `count-${number}` }] }),
      });
    const numbers = Array.from({ length: 300 }, (_, number) => number);
    const answered = new Map<number, string>();
    const writing = numbers.map(async (number) => {
      try {
        answered.set(number, await (await ask(number)).text());
      } catch {
        // Killed meanwhile: whether it was carried out is what the repeat must settle.
        return;
      }
      if (answered.size === 100) await server.end('SIGKILL');
    });
    await Promise.all(writing);
    server = await program.up(data);
    const repeats = await Promise.all(
      numbers.map(async (number) => {
        const response = await ask(number);
        return { number, status: response.status, text: await response.text() };
      }),
    );
    expect(repeats.filter(({ status }) => status !== 200)).toEqual([]);
    for (const { number, text } of repeats) {
      const { results } = JSON.parse(text) as { results: [{ value: number }] };
      expect(results[0].value).toBe(1);
      const before = answered.get(number);
      if (before !== undefined) expect((JSON.parse(before) as { results: unknown }).results).toEqual(results);
    }
  });

  it('of a commit contains no values, so that a small request stores little', async () => {
    const server = (running = await Running.start());
    const list = Array.from({ length: 1_000 }, () => 'x'.repeat(1_000));
    await server.ask('PUT', '/v1/data/default/list', { as: server.alice, body: { value: list } });
    const append = { op: 'data.append', key: 'list', items: [] };
    const { status, text } = await commitOf(server, [append, append], { 'idempotency-key': 'k' });
    expect(status).toBe(200);
    expect(text.length).toBeLessThan(1_000);
  });

  it('that would be too large refuses the request before anything is written', async () => {
    const server = (running = await Running.start({ limits: { idempotencyAnswerBytesMax: 2_000 } }));
    const sets = Array.from({ length: 40 }, (_, number) => ({ op: 'data.set', key: `k${number}`, value: 1 }));
    const refused = await commitOf(server, sets, { 'idempotency-key': 'k' });
    expect(refused.status).toBe(413);
    expect(refused.json.detail).toContain('idempotencyAnswerBytesMax');
    const { items } = (await server.ask('GET', '/v1/data/default', { as: server.alice })).json;
    expect(items).toEqual([]);
    expect((await commitOf(server, sets)).status).toBe(200);
  });

  it("counts against the user's bytes", async () => {
    const server = (running = await Running.start({ limits: { dataBytesPerUserMax: 1_000 } }));
    const reply = async (number: number): Promise<Reply> =>
      commitOf(server, [{ op: 'data.set', key: 'k', value: number }], { 'idempotency-key': `key-${number}` });
    const codes: string[] = [];
    for (let number = 0; number < 10; number += 1) {
      const { json } = await reply(number);
      codes.push(json.ok === true ? 'ok' : String(json.code ?? JSON.stringify(json)));
    }
    expect(codes[0]).toBe('ok');
    expect(codes.at(-1)).toContain('quota_exceeded');
  });
});
