import { EventEmitter, once } from 'node:events';
import { createConnection } from 'node:net';
import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { stopApp } from '../../src/server/app.js';
import type { RouteGroup } from '../../src/server/group.js';
import { createLogger } from '../../src/server/telemetry/log.js';
import { anyone } from '../../src/api/operation.js';
import { routesOf } from '../../src/server/route.js';
import { routeGroups } from '../../src/server/routes/index.js';
import { Running } from './running.js';
import { eventually } from '../until.js';

function slowGroup(entered: () => void, release: Promise<void>): RouteGroup {
  return {
    routes: routesOf(
      'test',
      { wait: { method: 'POST', path: '/slow', summary: 'Waits', principals: anyone } },
      { wait: { answers: { 200: z.object({ done: z.boolean() }) } } },
      {
        wait: async () => {
          entered();
          await release;
          return { done: true };
        },
      },
    ),
  };
}

test('a stop finishes the request that runs, ends streams and refuses new work', async () => {
  let entered = false;
  const gate = new EventEmitter();
  const released = once(gate, 'release').then(() => undefined);
  const running = await Running.start(
    {},
    { groups: [...routeGroups, slowGroup(() => (entered = true), released)] },
  );
  const stream = await fetch(`${running.url}/v1/changes`, {
    headers: { authorization: `Bearer ${running.alice}`, accept: 'text/event-stream' },
  });
  const streamEnd = stream.text();
  const slow = running.ask('POST', '/slow');
  await eventually(() => expect(entered).toBe(true));

  let stopped = false;
  const stop = running.stop().then(() => (stopped = true));
  expect(await streamEnd).toContain('event: position');
  await expect(fetch(`${running.url}/livez`)).rejects.toThrow();
  expect(stopped).toBe(false);

  gate.emit('release');
  expect((await slow).json).toEqual({ done: true });
  await stop;
});

test('an idle connection does not delay a stop', async () => {
  const running = await Running.start();
  const silent = createConnection({ port: running.port, host: '127.0.0.1' });
  await once(silent, 'connect');
  await running.ask('GET', '/livez');
  const closed = once(silent, 'close');
  await stopApp(running.app, 3_600);
  await closed;
  await running.stoa.close();
});

test('a request that does not end is cut off after the limit', async () => {
  let entered = false;
  const running = await Running.start(
    {},
    { groups: [slowGroup(() => (entered = true), new Promise(() => {}))] },
  );
  const slow = running.ask('POST', '/slow').catch((error: unknown) => error);
  await eventually(() => expect(entered).toBe(true));
  await stopApp(running.app, 0.05);
  expect(await slow).toBeInstanceOf(Error);
  await running.stoa.close();
});

test('a request that a stop interrupts gets an answer and is not logged as a fault', async () => {
  let written = '';
  const sink = new Writable({
    write(chunk, _encoding, done) {
      written += String(chunk);
      done();
    },
  });
  const running = await Running.start({}, { logger: createLogger('info', sink) });
  await running.stoa.close();
  const reply = await running.ask('POST', '/v1/agents', { as: running.operator, body: { name: 'late' } });
  expect([reply.status, reply.json.code]).toEqual([503, 'closed']);
  await stopApp(running.app, 1);
  expect(written).toBe('');
});
