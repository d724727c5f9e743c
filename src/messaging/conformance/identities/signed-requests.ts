/** Signed requests: which are accepted and which are refused. */
import { globalRoomId } from '../../identities/uuid.js';
import { randomUUID } from 'node:crypto';
import { type TestRunner } from '../../../core/test-runner.js';
import { type Agent, type Backend, type Desk } from '../kit/desk.js';
import { unknownId, refusal } from '../kit/requests.js';

export function signedRequestTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  describe(`signatures on ${backend.name}`, () => {
    let desk: Desk;
    let ann: Agent;
    let bob: Agent;

    beforeAll(async () => {
      desk = await backend.open();
      [ann, bob] = [await desk.agent('Ann'), await desk.agent('Bob')];
    });
    afterAll(() => desk.close());

    const body = JSON.stringify({ body: 'signed' });
    const post = (headers: Record<string, string>, raw = body) =>
      desk.ask('POST', '/room/global', { raw, headers });
    const error = async (headers: Record<string, string>, raw?: string) => refusal(await post(headers, raw));

    it("are refused with AICQ's errors, in AICQ's order", async () => {
      const good = () => ann.headers(body);
      expect(await error({})).toEqual([401, { error: 'missing auth headers' }]);
      for (const name of ['x-aicq-agent', 'x-aicq-nonce', 'x-aicq-timestamp', 'x-aicq-signature']) {
        const { [name]: _, ...rest } = good();
        expect(await error(rest), name).toEqual([401, { error: 'missing auth headers' }]);
      }
      expect(await error({ ...good(), 'x-aicq-timestamp': 'soon' })).toEqual([
        401,
        { error: 'invalid timestamp format' },
      ]);
      expect(await error(ann.headers(body, { timestamp: Date.now() - 31_000 }))).toEqual([
        401,
        { error: 'timestamp expired or too far in future' },
      ]);
      expect(await error(ann.headers(body, { timestamp: Date.now() + 10_000 }))).toEqual([
        401,
        { error: 'timestamp expired or too far in future' },
      ]);
      expect(await error(ann.headers(body, { nonce: 'x'.repeat(23) }))).toEqual([
        401,
        { error: 'nonce must be at least 24 characters' },
      ]);
      expect(await error(ann.headers(body, { nonce: 'x'.repeat(129) }))).toEqual([
        401,
        { error: 'nonce must be at most 128 characters' },
      ]);
      expect(await error(ann.headers(body, { agent: 'ann' }))).toEqual([
        401,
        { error: 'invalid agent ID format' },
      ]);
      expect(await error(ann.headers(body, { agent: unknownId }))).toEqual([
        401,
        { error: 'agent not found' },
      ]);
      expect(await error(bob.headers(body, { agent: ann.id }))).toEqual([
        401,
        { error: 'invalid signature' },
      ]);
      expect(await error(good(), JSON.stringify({ body: 'Signed' }))).toEqual([
        401,
        { error: 'invalid signature' },
      ]);
      expect(await error({ ...good(), 'x-aicq-signature': 'AAAA' })).toEqual([
        401,
        { error: 'invalid signature' },
      ]);
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
        expect(refusal(refused)).toEqual([401, { error: 'nonce already used' }]);
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
        expect(refusal(await post({ ...headers, 'x-aicq-agent': spelling })), spelling).toEqual([
          401,
          { error: 'nonce already used' },
        ]);
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
      expect((await ann.ask('GET', '/dm')).status).toBe(200);
      expect(
        (
          await desk.ask('GET', '/dm', {
            headers: { ...ann.headers('{}'), 'content-type': 'application/json' },
          })
        ).status,
      ).toBe(200);
    });

    it('by RFC 9421 cover method, address and body', async () => {
      const signed = (method: string, path: string, options = {}) =>
        ann.messageSignature(method, path, body, options);
      expect((await post(signed('POST', '/room/global'))).status).toBe(201);
      expect(refusal(await post(signed('POST', `/room/${globalRoomId}`)))).toEqual([
        401,
        { error: 'invalid signature' },
      ]);
      expect(refusal(await post(signed('PUT', '/room/global')))).toEqual([
        401,
        { error: 'invalid signature' },
      ]);
      expect(refusal(await post(signed('POST', '/room/global'), '{"body":"other"}'))).toEqual([
        401,
        { error: 'content-digest does not match the body' },
      ]);
      expect(
        refusal(await post(signed('POST', '/room/global', { components: ['@method', '@target-uri'] }))),
      ).toEqual([
        401,
        { error: 'signature must cover @method, @target-uri and the content-digest of a body' },
      ]);
      expect(
        refusal(await post({ ...signed('POST', '/room/global'), 'signature-input': 'nonsense' })),
      ).toEqual([401, { error: 'invalid signature-input header' }]);
      expect(
        refusal(await post(signed('POST', '/room/global', { created: Math.floor(Date.now() / 1000) - 40 }))),
      ).toEqual([401, { error: 'timestamp expired or too far in future' }]);
      const once = signed('POST', '/room/global');
      const answers = await Promise.all([post(once), post(once), post(once)]);
      expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 401, 401]);
      expect(
        (
          await desk.ask('GET', '/dm', {
            headers: ann.messageSignature('GET', '/dm', '', { components: ['@method', '@target-uri'] }),
          })
        ).status,
      ).toBe(200);
    });
  });
}
