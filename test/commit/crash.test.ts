import { expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { openStoa } from '../../src/index.js';
import { useProgram } from '../cli/program.js';
import { Acknowledged, commitUntilGone, resultOf } from './writers.js';
import { publicRoom } from '../messaging/public-room.js';

const program = useProgram();
const rounds = 2;
const writers = 16;

it('a killed server leaves every acknowledged commit complete, and no partial commit', async () => {
  const data = program.path('data');
  const ada = operatorCaller('ada');
  const acknowledged = new Acknowledged();
  let last = 0;
  for (let round = 0; round < rounds; round += 1) {
    const server = await program.up(data, [], { STOA_LIMIT_MESSAGE_BYTES_PER_MINUTE_MAX: '1000000000' });
    const enough = acknowledged.more(60);
    const writing = Promise.all(
      Array.from({ length: writers }, () =>
        commitUntilGone(server, { next: () => (last += 1), acknowledged, operationsOf: resultOf }),
      ),
    );
    await enough;
    await server.end('SIGKILL');
    await writing;

    const stoa = await openStoa({ data });
    const documents = new Set<number>();
    for await (const { value } of stoa.data.getAll(ada, 'results')) documents.add(Number(value));
    const said = new Set<number>();
    const { id } = await stoa.messaging.rooms.find(null, 'global');
    for (let afterMs = 0; ;) {
      const { items } = await stoa.messaging.port.messages(publicRoom(id), { afterMs, limit: 200 });
      for (const { body } of items) said.add(Number(body.replace('result ', '')));
      if (items.length === 0) break;
      afterMs = Math.max(...items.map(({ tsMs }) => tsMs));
    }
    expect([...acknowledged.numbers].filter((number) => !documents.has(number))).toEqual([]);
    expect(said).toEqual(documents);
    expect(await stoa.data.get(ada, 'default', 'count')).toBe(documents.size);
    await stoa.close();
  }
});
