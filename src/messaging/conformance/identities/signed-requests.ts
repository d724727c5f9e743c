/** Signed requests: which are accepted and which are refused. */
import { globalRoomId } from '../../identities/uuid.js';
import { randomUUID } from 'node:crypto';
import { type TestRunner } from '../../../core/test-runner.js';
import { type Agent, type Backend, type MessagingServer } from '../kit/server.js';
import { unknownId, refusals } from '../kit/requests.js';

export function signedRequestTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  const isRefused = refusals(expect);

  describe(`signatures on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;
    let bob: Agent;

    beforeAll(async () => {
      server = await backend.open();
      [ann, bob] = [await server.agent('Ann'), await server.agent('Bob')];
    });
    afterAll(() => server.close());

    const body = JSON.stringify({ body: 'signed' });
    const post = (headers: Record<string, string>, raw = body) =>
      server.ask('POST', '/room/global', { raw, headers });

    it("are refused with AICQ's errors, in AICQ's order", async () => {
      const good = () => ann.headers(body);
      isRefused(await post({}), 401, 'missing auth headers');
      for (const name of ['x-aicq-agent', 'x-aicq-nonce', 'x-aicq-timestamp', 'x-aicq-signature']) {
        const { [name]: _, ...rest } = good();
        isRefused(await post(rest), 401, 'missing auth headers', name);
      }
      isRefused(await post({ ...good(), 'x-aicq-timestamp': 'soon' }), 401, 'invalid timestamp format');
      isRefused(
        await post(ann.headers(body, { timestamp: Date.now() - 31_000 })),
        401,
        'timestamp expired or too far in future',
      );
      isRefused(
        await post(ann.headers(body, { timestamp: Date.now() + 10_000 })),
        401,
        'timestamp expired or too far in future',
      );
      isRefused(
        await post(ann.headers(body, { nonce: 'x'.repeat(23) })),
        401,
        'nonce must be at least 24 characters',
      );
      isRefused(
        await post(ann.headers(body, { nonce: 'x'.repeat(129) })),
        401,
        'nonce must be at most 128 characters',
      );
      isRefused(await post(ann.headers(body, { agent: 'ann' })), 401, 'invalid agent ID format');
      isRefused(await post(ann.headers(body, { agent: unknownId })), 401, 'agent not found');
      isRefused(await post(bob.headers(body, { agent: ann.id })), 401, 'invalid signature');
      isRefused(await post(good(), JSON.stringify({ body: 'Signed' })), 401, 'invalid signature');
      isRefused(await post({ ...good(), 'x-aicq-signature': 'AAAA' }), 401, 'invalid signature');
    });

    it('are accepted from a clock that is a little ahead or behind', async () => {
      expect((await post(ann.headers(body, { timestamp: Date.now() + 3_000 }))).status).toBe(201);
      expect((await post(ann.headers(body, { timestamp: Date.now() - 25_000 }))).status).toBe(201);
    });

    it('are accepted once: one of fifty copies sent at the same time', async () => {
      const headers = ann.headers(body);
      const answers = await Promise.all(Array.from({ length: 50 }, () => post(headers)));
      expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
      for (const refused of answers.filter(({ status }) => status !== 201))
        isRefused(refused, 401, 'nonce already used');
    });

    it('are accepted once for all spellings of the agent id', async () => {
      const headers = ann.headers(body);
      expect((await post(headers)).status).toBe(201);
      for (const spelling of [
        ann.id.toUpperCase(),
        ann.id.replaceAll('-', ''),
        `urn:uuid:${ann.id}`,
        `{${ann.id}}`,
      ]) {
        isRefused(await post({ ...headers, 'x-aicq-agent': spelling }), 401, 'nonce already used', spelling);
        expect((await post(ann.headers(body, { agent: spelling }))).status, spelling).toBe(201);
      }
    });

    it('do not use up the nonce if they are invalid', async () => {
      const nonce = randomUUID();
      expect(
        (await post({ ...ann.headers(body, { nonce }), 'x-aicq-signature': bob.sign('x') })).status,
      ).toBe(401);
      expect((await post(ann.headers(body, { nonce }))).status).toBe(201);
    });

    it('are checked over {} for a request without a body', async () => {
      expect((await ann.get('/dm')).status).toBe(200);
      expect(
        (await server.get('/dm', { ...ann.headers('{}'), 'content-type': 'application/json' })).status,
      ).toBe(200);
    });

    it('by RFC 9421 cover method, address and body', async () => {
      const signed = (method: string, path: string, options = {}) =>
        ann.messageSignature(method, path, body, options);
      expect((await post(signed('POST', '/room/global'))).status).toBe(201);
      isRefused(await post(signed('POST', `/room/${globalRoomId}`)), 401, 'invalid signature');
      isRefused(await post(signed('PUT', '/room/global')), 401, 'invalid signature');
      isRefused(
        await post(signed('POST', '/room/global'), '{"body":"other"}'),
        401,
        'content-digest does not match the body',
      );
      isRefused(
        await post(signed('POST', '/room/global', { components: ['@method', '@target-uri'] })),
        401,
        'signature must cover @method, @target-uri and the content-digest of a body',
      );
      isRefused(
        await post({ ...signed('POST', '/room/global'), 'signature-input': 'nonsense' }),
        401,
        'invalid signature-input header',
      );
      isRefused(
        await post(signed('POST', '/room/global', { created: Math.floor(Date.now() / 1000) - 40 })),
        401,
        'timestamp expired or too far in future',
      );
      const once = signed('POST', '/room/global');
      const answers = await Promise.all([post(once), post(once), post(once)]);
      expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 401, 401]);
      expect(
        (
          await server.get(
            '/dm',
            ann.messageSignature('GET', '/dm', '', { components: ['@method', '@target-uri'] }),
          )
        ).status,
      ).toBe(200);
    });
  });
}
