import { expect, it } from 'vitest';
import { operatorCaller } from '../../src/identity/caller.js';
import { openStoa } from '../../src/index.js';
import { useProgram } from '../cli/program.js';

const program = useProgram();
const rounds = 3;
const writers = 16;

/** Commits without end until the server is gone; notes the numbers that were acknowledged. */
async function write(url: string, token: string, next: () => number, acknowledged: Set<number>): Promise<void> {
  for (;;) {
    const number = next();
    const operations = [
      { op: 'data.set', namespace: 'results', key: String(number), value: number },
      { op: 'data.increment', key: 'count' },
      { op: 'room.post', room: 'global', body: `result ${number}` },
    ];
    try {
      const response = await fetch(`${url}/v1/commit`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'stoa-user': 'ada' },
        body: JSON.stringify({ operations }),
      });
      const answer = (await response.json()) as { ok?: boolean };
      if (answer.ok === true) acknowledged.add(number);
    } catch {
      return;
    }
  }
}

it('a killed server leaves every acknowledged commit whole, and no part of any', async () => {
  const data = program.path('data');
  const ada = operatorCaller('ada');
  const acknowledged = new Set<number>();
  let last = 0;
  for (let round = 0; round < rounds; round += 1) {
    const server = await program.up(data, [], { STOA_LIMIT_MESSAGE_BYTES_PER_MINUTE_MAX: '1000000000' });
    const writing = Promise.all(Array.from({ length: writers }, () => write(server.url, server.token, () => (last += 1), acknowledged)));
    const enough = acknowledged.size + 100;
    while (acknowledged.size < enough) await new Promise((resolve) => setTimeout(resolve, 5));
    await server.end('SIGKILL');
    await writing;

    const stoa = await openStoa({ data });
    const documents = new Set<number>();
    for await (const { value } of stoa.data.getAll(ada, 'results')) documents.add(Number(value));
    const said = new Set<number>();
    const { id } = await stoa.messaging.rooms.find('global');
    for (let afterMs = 0; ; ) {
      const { items } = await stoa.messaging.port.messages(id, { afterMs, limit: 200 });
      for (const { body } of items) said.add(Number(body.replace('result ', '')));
      if (items.length === 0) break;
      afterMs = Math.max(...items.map(({ tsMs }) => tsMs));
    }
    expect([...acknowledged].filter((number) => !documents.has(number))).toEqual([]);
    expect(said).toEqual(documents);
    expect(await stoa.data.get(ada, 'default', 'count')).toBe(documents.size);
    await stoa.close();
  }
});
