/** Details of AICQ's protocol on every backend: spellings, limits, defaults and permissions. */
import { refusals, bodiesOf } from './kit/requests.js';
import { randomUUID } from 'node:crypto';
import type { TestRunner } from '../../core/test-runner.js';
import { operatorCaller } from '../../core/caller.js';
import { globalRoomId } from '../identities/uuid.js';
import { type Backend, Agent, type MessagingServer, withServer } from './kit/server.js';
import { Stream } from './kit/stream.js';

/** Everything that may be read, with and without a signature. */
const reads = [
  '/',
  '/api',
  '/docs',
  '/docs/openapi.yaml',
  '/metrics',
  '/health',
  '/stats',
  '/channels',
  '/find?q=word',
  '/room/global',
  '/dm',
];

function spellingsOf(id: string): string[] {
  return [id, id.toUpperCase(), id.replaceAll('-', ''), `urn:uuid:${id}`, `{${id}}`].map(encodeURIComponent);
}

/** A body in which every character is written as an escape of six characters. */
function escaped(text: string): string {
  return `{"body":"${Array.from(text, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"}`;
}

/** A message of one character in a request of the given number of bytes. */
function padded(bytes: number): string {
  return `{"body":"x"${' '.repeat(bytes - 12)}}`;
}

export function wireTests({ afterAll, beforeAll, describe, expect, it }: TestRunner, backend: Backend): void {
  const isRefused = refusals(expect);

  describe(`AICQ's wire on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;

    beforeAll(async () => {
      server = await backend.open();
      ann = await server.agent('Ann');
    });
    afterAll(() => server.close());

    const send = async (path: string, raw: string) => (await ann.ask('POST', path, { raw })).status;
    const make = async (roomKey: string) =>
      (await ann.send('/room', { name: 'den', is_private: true, key: roomKey })).json;
    const ask = (method: string, path: string, body?: unknown) =>
      ann.ask(method, path, body === undefined ? {} : { body });

    it('accepts every spelling of an id on every route', async () => {
      const room = await server.room(ann);
      const word = `w${randomUUID().slice(0, 8)}`;
      const { id } = await ann.post(room, word);
      for (const spelling of spellingsOf(room)) {
        expect((await server.get(`/room/${spelling}`)).json.room.id).toBe(room);
        expect((await server.get(`/room/${spelling}/${id}`)).json.id).toBe(id);
        expect((await server.get(`/find?q=${word}&room=${spelling}`)).json.total).toBe(1);
        expect((await ann.send(`/room/${spelling}`, { body: 'said' })).status).toBe(201);
      }
      for (const spelling of spellingsOf(ann.id)) {
        expect((await server.get(`/who/${spelling}`)).json.id).toBe(ann.id);
        expect((await ann.send(`/dm/${spelling}`, { body: 'letter' })).status).toBe(201);
      }
      expect((await ann.get('/dm')).json.messages).toHaveLength(5);
      expect((await server.get(`/room/${globalRoomId.replaceAll('-', '')}`)).json.room).toEqual({
        id: globalRoomId,
        name: 'global',
      });
    });

    for (const path of reads)
      it(`GET ${path} takes an empty body of JSON, and {}`, async () => {
        for (const [body, length] of [
          ['', ''],
          ['', 'Content-Length: 0\r\n'],
          ['{}', 'Content-Length: 2\r\n'],
        ] as const) {
          const headers = Object.entries(ann.headers(body)).map(([name, value]) => `${name}: ${value}\r\n`);
          const answer = await server.talk(
            `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n${length}${headers.join('')}\r\n${body}`,
          );
          expect(answer, `${path} with "${body}"`).toMatch(/^HTTP\/1\.1 200 /);
        }
      });

    it('uses the defaults for invalid paging values', async () => {
      const room = await server.room(ann);
      for (let index = 0; index < 3; index += 1) await ann.post(room, `n${index}`);
      for (const bad of ['-1', '0', 'x', '1e3', '', '1.5', '9'.repeat(30), '%00']) {
        expect(
          (await server.get(`/room/${room}?limit=${bad}&before=${bad}&after=${bad}`)).json.messages,
          bad,
        ).toHaveLength(3);
        expect((await server.get(`/channels?limit=${bad}&offset=${bad}`)).status, bad).toBe(200);
        expect((await server.get(`/find?q=n1x&limit=${bad}&after=${bad}`)).status, bad).toBe(200);
      }
    });

    it('measures messages, direct messages and requests to the byte, also if they are escaped', async () => {
      expect([
        await send('/room/global', escaped('x'.repeat(4096))),
        await send('/room/global', escaped('x'.repeat(4097))),
      ]).toEqual([201, 422]);
      expect([
        await send('/room/global', JSON.stringify({ body: 'é'.repeat(2048) })),
        await send('/room/global', JSON.stringify({ body: `${'é'.repeat(2048)}x` })),
      ]).toEqual([201, 422]);
      expect([
        await send(`/dm/${ann.id}`, escaped('x'.repeat(8192))),
        await send(`/dm/${ann.id}`, escaped('x'.repeat(8193))),
      ]).toEqual([201, 422]);
      expect([
        await send('/room/global', padded(65_536)),
        await send('/room/global', padded(65_537)),
      ]).toEqual([201, 413]);
    });

    it('measures room keys to the byte', async () => {
      expect(await make('k'.repeat(15))).toEqual({ error: 'private rooms require key (min 16 chars)' });
      expect(await make('k'.repeat(73))).toEqual({ error: 'room key too long (max 72 bytes)' });
      expect(await make('é'.repeat(37))).toEqual({ error: 'room key too long (max 72 bytes)' });
      for (const roomKey of ['k'.repeat(16), 'k'.repeat(72)]) {
        const { id } = await make(roomKey);
        expect((await server.get(`/room/${id}`, { 'x-aicq-room-key': roomKey })).status).toBe(200);
        // Bytes beyond bcrypt's limit are part of the key too.
        expect((await server.get(`/room/${id}`, { 'x-aicq-room-key': `${roomKey}x` })).status).toBe(403);
      }
    });

    it('accepts a room key beyond ASCII as UTF-8 bytes and as browsers send it', async () => {
      const roomKey = 'clé de la pièce: é';
      const { id } = await make(roomKey);
      const open = async (encoding: 'utf8' | 'latin1', key: string) =>
        (
          await server.talk(
            Buffer.concat([
              Buffer.from(`GET /room/${id} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-AICQ-Room-Key: `),
              Buffer.from(key, encoding),
              Buffer.from('\r\n\r\n'),
            ]),
          )
        ).slice(0, 12);
      expect(await open('utf8', roomKey)).toBe('HTTP/1.1 200');
      expect(await open('latin1', roomKey)).toBe('HTTP/1.1 200');
      expect(await open('utf8', roomKey.replace('é', 'è'))).toBe('HTTP/1.1 403');
    });

    it('refuses invalid requests on the added routes with their own sentences', async () => {
      isRefused(await ask('POST', '/dm/ack', { ids: [] }), 400, 'ids is required');
      isRefused(
        await ask('POST', '/dm/ack', { ids: Array.from({ length: 1_001 }, () => 'x') }),
        400,
        'too many ids',
      );
      isRefused(await ask('GET', '/stream'), 400, "query parameter 'rooms' is required");
      isRefused(
        await ask('GET', `/stream?rooms=${Array.from({ length: 51 }, () => randomUUID()).join(',')}`),
        400,
        'too many rooms in one stream',
      );
    });

    it('shows a direct message to its recipient only: not in search, statistics, rooms, metrics, or the feeds and streams of others', async () => {
      const [eve, mallory] = [await server.agent(), await server.agent()];
      const word = `letter${randomUUID().replaceAll('-', '')}`;
      const streams = await Promise.all([
        Stream.open(`${server.url}/dm/stream`, mallory.headers()),
        Stream.open(`${server.url}/room/global/stream`),
      ]);
      await Promise.all(streams.map((stream) => stream.until(1, ({ events }) => events)));
      const { json: letter } = await ann.send(`/dm/${eve.id}`, { body: word });
      expect((await eve.get('/dm')).text).toContain(word);
      const { token } = await server.stoa.identity.createToken(
        operatorCaller(),
        `u${word.slice(0, 12)}`,
        {},
        null,
      );
      const answers = [
        ...(await Promise.all(
          [
            `/find?q=${word}`,
            '/stats',
            '/room/global?limit=200',
            '/metrics',
            `/room/global/${letter.id as string}`,
          ].map((path) => server.get(path)),
        )),
        await server.get('/v1/changes?limit=1000', { authorization: `Bearer ${token}` }),
        await mallory.get('/dm?pending=1&verify=1'),
        await mallory.send('/dm/ack', { ids: [letter.id] }),
      ];
      for (const { text } of answers.slice(1)) expect(text).not.toContain(word);
      expect(answers[0]?.json.results).toEqual([]);
      for (const { text } of answers.filter((_, index) => index !== 4)) expect(text).not.toContain(letter.id);
      expect(answers.at(-1)?.json).toEqual({ acknowledged: 0 });
      // A message that both readers get. When it has arrived, earlier messages have arrived too.
      await ann.post('global', 'for all');
      await ann.send(`/dm/${mallory.id}`, { body: 'for mallory' });
      await Promise.all(streams.map((stream) => stream.until(1)));
      for (const stream of streams) {
        expect(JSON.stringify(stream.events)).not.toContain(word);
        stream.close();
      }
    });

    it('rotates to one of several keys that are sent at once', async () => {
      const eve = await server.agent();
      const offered = Array.from({ length: 6 }, () => new Agent(server));
      const answers = await Promise.all(
        offered.map((next) =>
          eve.send(`/who/${eve.id}/key`, {
            public_key: next.publicKey,
            proof: next.sign(`aicq-key-rotation|${eve.id}|${eve.publicKey}|${next.publicKey}`),
          }),
        ),
      );
      const rotated = answers.filter(({ status }) => status === 200);
      expect(rotated).toHaveLength(1);
      // Depending on the time, another rotation was faster, the old key no longer signs, or the proof names a
      // former key.
      for (const { status, json } of answers.filter((answer) => answer.status !== 200)) {
        expect([
          [409, 'the key was rotated meanwhile'],
          [401, 'invalid signature'],
          [400, 'invalid proof: the new key must sign the rotation'],
        ]).toContainEqual([status, json.error]);
      }
      expect((await server.get(`/who/${eve.id}`)).json.public_key).toBe(rotated[0]?.json.public_key);
      expect((await server.get(`/who/${eve.id}/keys`)).json.keys).toHaveLength(2);
    });

    it('reads a room and an inbox from their beginning with after=0, and back from the newest with before=0', async () => {
      const eve = await server.agent();
      const room = await server.room(eve);
      for (const body of ['one', 'two', 'three']) {
        await eve.post(room, body);
        await eve.send(`/dm/${eve.id}`, { body });
      }
      const bodies = async (path: string) => bodiesOf(await eve.get(path));
      for (const path of [`/room/${room}`, '/dm']) {
        expect(await bodies(`${path}?after=0&limit=2`)).toEqual(['two', 'one']);
        expect(await bodies(`${path}?before=0&limit=2`)).toEqual(['three', 'two']);
        expect(await bodies(`${path}?after=x&limit=2`)).toEqual(['three', 'two']);
      }
      const stream = await Stream.open(`${server.url}/room/${room}/stream?after=0`);
      await stream.until(3);
      stream.close();
    });

    it('returns a search page by page, each message once, also within one millisecond', async () => {
      let nowMs = Date.now();
      await withServer(backend, { clock: () => nowMs }, async (own, eve) => {
        const word = `paged${randomUUID().slice(0, 8)}`;
        const post = (room: string, body: string) => {
          const raw = JSON.stringify({ body });
          return own.ask('POST', `/room/${room}`, { raw, headers: eve.headers(raw, { timestamp: nowMs }) });
        };
        const rooms: string[] = [];
        for (let count = 0; count < 5; count += 1) {
          const raw = JSON.stringify({ name: `page-${count}` });
          const headers = eve.headers(raw, { timestamp: nowMs });
          rooms.push((await own.ask('POST', '/room', { raw, headers })).json.id);
        }
        for (let round = 0; round < 2; round += 1) {
          nowMs += 10;
          for (const room of rooms) expect((await post(room, `${word} ${round} ${room}`)).status).toBe(201);
        }
        for (const limit of [1, 3, 9]) {
          const found: string[] = [];
          let cursor = '';
          for (;;) {
            const { json } = await own.get(`/find?q=${word}&limit=${limit}${cursor}`);
            found.push(...json.results.map(({ body }) => body));
            expect(json.results.length).toBe(Math.min(limit, 10 - (found.length - json.results.length)));
            if (json.next_cursor === undefined) break;
            cursor = `&cursor=${json.next_cursor}`;
          }
          expect(new Set(found).size).toBe(10);
          expect(found).toHaveLength(10);
        }
        expect((await own.get(`/find?q=${word}&limit=10`)).json.next_cursor).toBeUndefined();
      });
    });

    it('refuses cursors of other routes and of times that no message can have', async () => {
      const cursors = ['s281474976710656', 's999999999999999', 'b281474976710655', 'a1', 's1 x', 's'];
      for (const text of cursors) {
        const answer = await server.ask(
          'GET',
          `/find?q=word&cursor=${Buffer.from(text).toString('base64url')}`,
        );
        expect([text, answer.status]).toEqual([text, 400]);
      }
      for (const text of ['s1', 'b281474976710656', 'a999999999999999']) {
        const cursor = Buffer.from(text).toString('base64url');
        expect([text, (await server.get(`/room/global?cursor=${cursor}`)).status]).toEqual([text, 400]);
      }
      for (const path of ['/room/global?before=', '/room/global?after=', '/find?q=word&after='])
        expect((await server.get(`${path}999999999999999`)).status).toBe(200);
    });

    it('names an author without a name Unknown Agent in the statistics', async () => {
      const nameless = await server.agent();
      const { id } = await nameless.post('global', 'who am I');
      expect((await server.get('/stats')).json.recent_messages[0]).toMatchObject({
        id,
        agent_id: nameless.id,
        agent_name: 'Unknown Agent',
      });
    });
  });
}
