/** A signed post whose room changes after the server has read the room, and before it stores the message. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { sharedPostgres } from '../servers/shared.js';
import { linesOf } from '../transfer/kit.js';
import { openOn, useRedis } from '../homes/postgres/messaging/open-messaging.js';
import { type Agent, MessagingServer } from './kit.js';
import { linkTo } from './link.js';

const redis = useRedis();
const homes: [name: string, open: () => Promise<MessagingServer>][] = [
  ['a data directory', () => MessagingServer.open()],
  ['PostgreSQL', async () => openOn((await sharedPostgres()).url, redis.url)],
];
const operator = operatorCaller();

/** Imports the room again with other fields. */
async function replace({ stoa }: MessagingServer, room: string, fields: object): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-during-post-'));
  const lines = await linesOf(stoa, { domains: ['messaging'], withSecrets: true });
  const changed = lines.map((line) =>
    line.includes('"messaging.room"') && line.includes(room)
      ? `${JSON.stringify({ ...(JSON.parse(line) as object), ...fields })}\n`
      : line,
  );
  const path = join(directory, 'rooms.ndjson');
  await writeFile(path, changed.join(''));
  await stoa.transfer.import(operator, path, { onConflict: 'replace', keepGoing: true });
  await rm(directory, { recursive: true });
}

/** Posts as an agent whose link is looked up, beside the room, after the change. */
async function postDuring(
  server: MessagingServer,
  { ann, room }: { ann: Agent; room: string },
  change: () => Promise<unknown>,
) {
  const { registry, messaging } = server.stoa;
  const lookUp = registry.speaksFor.bind(registry);
  const spy = vi.spyOn(registry, 'speaksFor').mockImplementationOnce(async (...link) => {
    // The look-up of the room began before this one.
    await messaging.port.room(room);
    await change();
    return lookUp(...link);
  });
  const answer = await ann.ask('POST', `/room/${room}`, { body: { body: 'late' } });
  expect(spy).toHaveBeenCalledOnce();
  spy.mockRestore();
  return answer;
}

describe.each(homes)('in %s', (_name, open) => {
  async function withRoom(
    work: (server: MessagingServer, place: { ann: Agent; room: string }) => Promise<void>,
  ): Promise<void> {
    const server = await open();
    try {
      const ann = await server.agent();
      await linkTo(server, ann);
      await work(server, { ann, room: await server.room(ann) });
    } finally {
      await server.close();
    }
  }

  it('a room that gets a key during a post refuses the post, which has no key', async () => {
    await withRoom(async (server, place) => {
      const keyed = await server.room(place.ann, 'keyed', 'a key of sixteen or more');
      const hash = await server.stoa.messaging.port.roomKeyHash(keyed);
      const answer = await postDuring(server, place, () =>
        replace(server, place.room, { isPrivate: true, key_hash: hash }),
      );
      expect(answer.json).toEqual({ error: 'room key required for private rooms' });
      const { items } = await server.stoa.messaging.port.messages(
        await server.stoa.messaging.rooms.find(operator, place.room),
        { afterMs: 0, limit: 10 },
      );
      expect(items).toEqual([]);
    });
  });

  it('a room that is deleted during a post refuses the post, and nothing of it is left', async () => {
    await withRoom(async (server, place) => {
      const since = await server.stoa.changes.newest();
      const answer = await postDuring(server, place, () =>
        server.stoa.messaging.rooms.delete(operator, place.room),
      );
      expect(answer.status).toBe(404);
      await server.stoa.changes.newest();
      const { commits } = await server.stoa.home.feed.read({ since });
      expect(commits.flatMap(({ changes }) => changes.map(({ kind }) => kind))).toEqual(['room.deleted']);
    });
  });

  it('a room that is imported with another name takes the post', async () => {
    await withRoom(async (server, place) => {
      const answer = await postDuring(server, place, () => replace(server, place.room, { name: 'renamed' }));
      expect(answer.status).toBe(201);
      expect((await place.ann.ask('POST', `/room/${place.room}`, { body: { body: 'next' } })).status).toBe(
        201,
      );
    });
  });
});
