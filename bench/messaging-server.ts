/** The reference of `messaging.ts` in a process of its own: a bare Fastify that does the least possible. */
import Fastify from 'fastify';
import { aicqSignedText, verifySignature } from '../src/identity/signatures.js';

const [publicKey = '', body = ''] = process.argv.slice(2);
process.send?.({ url: await serveBare() });
// It ends with whoever measures.
process.on('disconnect', () => process.exit(0));

async function serveBare(): Promise<string> {
  const app = Fastify();
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, given, done) => done(null, given));
  const key = Buffer.from(publicKey, 'base64');
  app.post('/room/global', (request, reply) => {
    const { 'x-aicq-nonce': nonce, 'x-aicq-timestamp': timestamp, 'x-aicq-signature': signature } = request.headers;
    const text = aicqSignedText(request.body as Buffer, String(nonce), String(timestamp));
    const holds = verifySignature(key, text, Buffer.from(String(signature), 'base64'));
    return reply.code(holds ? 201 : 401).send({ id: '01ARZ3NDEKTSV4RRFFQ69G5FAV', ts: 1_700_000_000_000 });
  });
  app.get('/room/global', (_request, reply) => reply.header('content-type', 'application/json; charset=utf-8').send(body));
  return app.listen({ port: 0, host: '127.0.0.1' });
}
