/**
 * A server that is killed after the store has a write, and before the home has its words and its change, leaves a note.
 * The next server makes the index and the feed equal to the store.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningServer, useProgram } from '../cli/program.js';
import { FaultyProxy } from '../servers/faulty-proxy.js';
import { sharedHome, sharedServer, uniqueName } from '../servers/shared.js';
import { couchdbUrl } from '../stores/couchdb/database.js';
import { eventually } from '../until.js';

const program = useProgram();

interface FoundItem {
  readonly key: string;
  readonly version: number;
}

interface ReadChange {
  readonly kind: string;
  readonly id: string;
  readonly version: number | null;
}

async function ask<Body>(
  { url, token }: RunningServer,
  method: string,
  path: string,
  body?: unknown,
): Promise<Body> {
  const answer = await fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      'stoa-user': 'ada',
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Body;
}

const found = async (server: RunningServer, q: string): Promise<FoundItem[]> =>
  (await ask<{ items: FoundItem[] }>(server, 'GET', `/v1/find?q=${q}&in=data`)).items;

const changes = async (server: RunningServer): Promise<ReadChange[]> =>
  (await ask<{ items: ReadChange[] }>(server, 'GET', '/v1/changes?limit=1000')).items;

describe.each(['directory', 'postgres'] as const)(
  'a server on the home %s with documents in CouchDB',
  (home) => {
    let proxy: FaultyProxy;
    let up: () => Promise<RunningServer>;
    let server: RunningServer;

    beforeAll(async () => {
      const couchdb = await sharedServer('couchdb');
      proxy = new FaultyProxy(couchdb.url);
      await proxy.start();
      const datastore = couchdbUrl(couchdb.url, uniqueName('kill'), proxy.url).href;
      const common = { STOA_DATASTORE: datastore, STOA_LIMIT_BACKEND_REQUEST_SECONDS_MAX: '1' };
      const data = program.path(`store-kill-${home}`);
      const { args, environment } = home === 'postgres' ? await sharedHome() : { args: [], environment: {} };
      up = () => program.up(data, args, { ...environment, ...common });
      server = await up();
    });
    afterAll(async () => {
      await server.end('SIGTERM');
      await proxy.stop();
    });

    /** Kills the server after the store has executed the request that `isWrite` knows, before its next request. */
    async function killAfterWrite(
      isWrite: (request: { target: string; body: string }) => boolean,
      request: () => Promise<unknown>,
    ): Promise<void> {
      let isWritten = false;
      const isReached = new Promise<void>((resolve) => {
        proxy.before = async (seen) => {
          if (isWritten) {
            resolve();
            await new Promise(() => undefined); // Never goes on: the server is killed here.
          }
          isWritten = isWrite(seen);
        };
      });
      const refused = expect(request()).rejects.toThrow(TypeError);
      await isReached;
      await server.end('SIGKILL');
      await refused;
      proxy.heal();
      server = await up();
    }

    const expectSound = async (): Promise<void> => {
      const { findings } = await ask<{ findings: unknown[] }>(server, 'POST', '/v1/doctor', {});
      expect(findings).toEqual([]);
    };

    test('finds a document that was set, by its new words only, and announces it', async () => {
      await ask(server, 'PUT', '/v1/data/notes/a', { value: 'walrus' });
      await killAfterWrite(
        ({ body }) => body.includes('gannet'),
        () => ask(server, 'PUT', '/v1/data/notes/a', { value: 'gannet' }),
      );
      await eventually(async () =>
        expect(await found(server, 'gannet')).toMatchObject([{ key: 'a', version: 2 }]),
      );
      expect(await found(server, 'walrus')).toEqual([]);
      expect(await changes(server)).toContainEqual(
        expect.objectContaining({ kind: 'document.set', id: 'notes/a', version: 2 }),
      );
      await expectSound();
    });

    test('forgets a document that was deleted, and announces it', async () => {
      await ask(server, 'PUT', '/v1/data/notes/b', { value: 'otter' });
      await killAfterWrite(
        ({ body }) => body.includes('_deleted'),
        () => ask(server, 'DELETE', '/v1/data/notes/b'),
      );
      await eventually(async () =>
        expect(await changes(server)).toContainEqual(
          expect.objectContaining({ kind: 'document.deleted', id: 'notes/b' }),
        ),
      );
      expect(await found(server, 'otter')).toEqual([]);
      await expectSound();
    });

    test('files all documents of a batch, and announces them', async () => {
      await ask(server, 'PUT', '/v1/data/notes/c', { value: 'puffin' });
      const set = Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`d${at}`, `heron ${at}`]));
      await killAfterWrite(
        ({ body }) => body.includes('heron'),
        () => ask(server, 'POST', '/v1/data/notes', { set, delete: ['c'] }),
      );
      const stored = (await ask<{ items: unknown[] }>(server, 'GET', '/v1/data/notes?prefix=d&limit=100'))
        .items;
      expect(stored.length).toBeGreaterThan(0);
      await eventually(async () =>
        expect(
          (await ask<{ items: unknown[] }>(server, 'GET', '/v1/find?q=heron&in=data&limit=100')).items,
        ).toHaveLength(stored.length),
      );
      await eventually(async () =>
        expect(
          (await changes(server)).filter(({ id }) => /^notes\/d\d+$/.test(id)).length,
        ).toBeGreaterThanOrEqual(stored.length),
      );
      await expectSound();
    });

    test('forgets the documents of a cleared namespace', async () => {
      for (const key of ['one', 'two', 'three'])
        await ask(server, 'PUT', `/v1/data/scratch/${key}`, { value: 'lynx' });
      await killAfterWrite(
        ({ body }) => body.includes('_deleted'),
        () => ask(server, 'DELETE', '/v1/data/scratch'),
      );
      await eventually(async () =>
        expect(await changes(server)).toContainEqual(
          expect.objectContaining({ kind: 'namespace.cleared', id: 'scratch' }),
        ),
      );
      expect(await found(server, 'lynx')).toEqual([]);
      await expectSound();
    });
  },
);
