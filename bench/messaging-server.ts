/**
 * The servers of `messaging-http.ts`, each in its own process: Stoa, and a bare Fastify that does the least
 * possible.
 */
import Fastify from 'fastify';
import { aicqSignedText, verifySignature } from '../src/identity/signatures.js';
import { openStoa } from '../src/index.js';
import { limitDefinitions, limitsWith } from '../src/core/settings/limits.js';
import { createApp } from '../src/server/app.js';
import { settleProcess } from '../src/server/process-settings.js';
import { serve } from './child-server.js';

const [, , kind, ...given] = process.argv;
if (kind === 'stoa' || kind === 'bare') {
  serve({ url: await (kind === 'stoa' ? serveStoa(...given) : serveBare(...given)) });
}

/** With its rate limits out of the way: they would refuse what is to be measured. */
async function serveStoa(data = ''): Promise<string> {
  const rates = Object.keys(limitDefinitions).filter(
    (name) => /Per(Minute|Hour)Max$/.test(name) && name !== 'requestsPerMinuteMax',
  );
  const limits = limitsWith(
    Object.fromEntries([...rates, 'messageClockAheadSecondsMax'].map((name) => [name, 1e12])),
  );
  settleProcess();
  const stoa = await openStoa({ data, limits, messagingSettings: { rateLimitAllow: ['127.0.0.1'] } });
  return createApp(stoa).listen({ port: 0, host: '127.0.0.1' });
}

async function serveBare(publicKey = '', body = ''): Promise<string> {
  const app = Fastify();
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, bytes, done) => done(null, bytes));
  const key = Buffer.from(publicKey, 'base64');
  app.post('/room/global', (request, reply) => {
    const {
      'x-aicq-nonce': nonce,
      'x-aicq-timestamp': timestamp,
      'x-aicq-signature': signature,
    } = request.headers;
    const text = aicqSignedText(request.body as Buffer, String(nonce), String(timestamp));
    const holds = verifySignature(key, text, Buffer.from(String(signature), 'base64'));
    return reply.code(holds ? 201 : 401).send({ id: '01ARZ3NDEKTSV4RRFFQ69G5FAV', ts: 1_700_000_000_000 });
  });
  app.get('/room/global', (_request, reply) =>
    reply.header('content-type', 'application/json; charset=utf-8').send(body),
  );
  return app.listen({ port: 0, host: '127.0.0.1' });
}
