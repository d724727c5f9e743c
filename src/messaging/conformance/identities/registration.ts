/** Registration: one identity for each key, and the exact errors for invalid input. */
import { type TestRunner } from '../../../core/test-runner.js';
import { Agent, type Backend, type MessagingServer } from '../kit/server.js';
import { unknownId, refusal, refusals } from '../kit/requests.js';

export function registrationTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  const isRefused = refusals(expect);

  describe(`registration on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;
    let bob: Agent;

    beforeAll(async () => {
      server = await backend.open();
      [ann, bob] = [await server.agent('Ann'), await server.agent('Bob')];
    });
    afterAll(() => server.close());

    it('creates one identity per key, and returns it unchanged for a repeated request', async () => {
      const eve = new Agent(server);
      const first = await server.send('/register', {
        public_key: eve.publicKey,
        name: ' Eve\u0007 ',
        email: 'eve@example.org',
      });
      expect(first.status).toBe(201);
      expect(first.json).toEqual({
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        profile_url: `/who/${first.json.id}`,
      });
      const again = await server.send('/register', { public_key: eve.publicKey, name: 'Mallory' });
      expect(refusal(again)).toEqual([200, first.json]);
      const who = await server.get(`/who/${first.json.id}`);
      expect(who.json).toEqual({
        id: first.json.id,
        name: 'Eve',
        email: 'eve@example.org',
        public_key: eve.publicKey,
        joined_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      });
    });

    it('creates one identity for twenty concurrent registrations of a key', async () => {
      const eve = new Agent(server);
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => server.send('/register', { public_key: eve.publicKey })),
      );
      expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1);
      expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(19);
    });

    it("refuses invalid input with AICQ's errors", async () => {
      const bad = 'invalid public_key: must be base64-encoded Ed25519 public key (32 bytes)';
      const cases: [unknown, string][] = [
        [{}, 'public_key is required'],
        [{ public_key: '' }, 'public_key is required'],
        [{ public_key: 'AAAA' }, bad],
        [{ public_key: Buffer.alloc(32).toString('base64') }, bad],
        [{ public_key: ann.publicKey.replace('=', '') }, bad],
        [{ public_key: new Agent(server).publicKey, email: 'nobody' }, 'invalid email format'],
        [{ public_key: 7 }, 'invalid JSON body'],
        [[], 'invalid JSON body'],
        ['text', 'invalid JSON body'],
      ];
      for (const [body, error] of cases)
        isRefused(await server.send('/register', body), 400, error, JSON.stringify(body));
      isRefused(await server.ask('POST', '/register', { raw: '{"public_key":' }), 400, 'invalid JSON body');
      isRefused(
        await server.ask('POST', '/register', { raw: '{}', headers: { 'content-type': 'text/plain' } }),
        415,
        'content-type must be application/json',
      );
      isRefused(
        await server.ask('POST', '/register', { raw: `{"x":"${'x'.repeat(70_000)}"}` }),
        413,
        'request body too large',
      );
      isRefused(await server.get('/who/nobody'), 400, 'invalid agent ID format');
      isRefused(await server.get(`/who/${unknownId}`), 404, 'agent not found');
    });

    it('reads field names in any case and ignores unknown ones', async () => {
      const eve = new Agent(server);
      const { status, json } = await server.send('/register', {
        PUBLIC_KEY: eve.publicKey,
        Name: 'Eve',
        more: [1],
      });
      expect(status).toBe(201);
      expect((await server.get(`/who/${json.id}`)).json.name).toBe('Eve');
    });

    it('marks a registration that is signed with its key, and refuses one that is signed with another', async () => {
      const eve = new Agent(server);
      const body = JSON.stringify({ public_key: eve.publicKey });
      const { 'x-aicq-agent': _, ...headers } = eve.headers(body);
      const { json } = await server.ask('POST', '/register', { raw: body, headers });
      expect((await server.get(`/who/${json.id}`)).json.proven).toBe(true);
      const { 'x-aicq-agent': __, ...forged } = bob.headers(body);
      isRefused(
        await server.ask('POST', '/register', { raw: body, headers: forged }),
        401,
        'invalid signature',
      );
    });
  });
}
