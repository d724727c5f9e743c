import { once } from 'node:events';
import { connect } from 'node:net';
import fastify from 'fastify';
import { expect, it } from 'vitest';
import { disconnectionOf, disconnectSignal } from '../../../src/server/request/disconnection.js';

it('a caller that disconnected earlier is reported as gone', async () => {
  const app = fastify();
  const seen = new Promise((resolve) => {
    app.get('/', async (_request, reply) => {
      const early = disconnectSignal(reply);
      expect([disconnectionOf(reply).aborted, early.aborted]).toEqual([false, false]);
      await once(reply.raw, 'close');
      resolve([disconnectionOf(reply).aborted, early.aborted, disconnectSignal(reply).aborted]);
      return '';
    });
  });
  try {
    const { port, hostname } = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
    const socket = connect(Number(port), hostname);
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    await once(app.server, 'request');
    socket.destroy();
    expect(await seen).toEqual([true, true, true]);
  } finally {
    await app.close();
  }
});
