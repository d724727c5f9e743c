/** Profiles and the change of a key. */
import { verifySignature } from '../../../identity/signatures.js';
import { type TestRunner } from '../../../core/test-runner.js';
import { Agent, type Backend, type MessagingServer, roomy, onServer } from '../kit/server.js';
import { refusal, refusals } from '../kit/requests.js';

export function profileTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  const isRefused = refusals(expect);

  describe(`profiles and keys on ${backend.name}`, () => {
    let server: MessagingServer;
    let bob: Agent;

    beforeAll(async () => {
      server = await backend.open();
      bob = await server.agent('Bob');
    });
    afterAll(() => server.close());

    it('can be changed only by their owner', async () => {
      const eve = await server.agent('Eve');
      const changed = await eve.ask('PATCH', `/who/${eve.id}`, {
        body: { name: 'Eva', email: 'eva@example.org' },
      });
      expect(changed.status).toBe(200);
      expect((await server.get(`/who/${eve.id}`)).json).toMatchObject({
        name: 'Eva',
        email: 'eva@example.org',
      });
      isRefused(
        await bob.ask('PATCH', `/who/${eve.id}`, { body: { name: 'Mallory' } }),
        403,
        'can only change your own profile',
      );
      expect((await server.ask('PATCH', `/who/${eve.id}`, { body: { name: 'Mallory' } })).status).toBe(401);
    });

    it('keep only the newest keys of an identity', async () => {
      await onServer(backend, { limits: { ...roomy, identityKeysMax: 2 } }, async (bounded) => {
        let eve = await bounded.agent('Eve');
        const statuses: number[] = [];
        for (let rotation = 0; rotation < 2; rotation += 1) {
          const next = new Agent(bounded);
          next.id = eve.id;
          const proof = next.sign(`aicq-key-rotation|${eve.id}|${eve.publicKey}|${next.publicKey}`);
          const body = { public_key: next.publicKey, proof };
          const { status } = await eve.send(`/who/${eve.id}/key`, body);
          statuses.push(status);
          if (status === 200) eve = next;
        }
        expect(statuses).toEqual([200, 409]);
        expect((await bounded.get(`/who/${eve.id}/keys`)).json.keys).toHaveLength(2);
        expect((await eve.get('/dm')).status).toBe(200);
      });
    });

    it('rotate to a new key if both keys sign, and keep the old key in the history', async () => {
      const eve = await server.agent('Eve');
      const next = new Agent(server);
      next.id = eve.id;
      const proof = next.sign(`aicq-key-rotation|${eve.id}|${eve.publicKey}|${next.publicKey}`);
      const body = { public_key: next.publicKey, proof };
      isRefused(
        await eve.send(`/who/${eve.id}/key`, { ...body, proof: eve.sign('x') }),
        400,
        'invalid proof: the new key must sign the rotation',
      );
      expect((await eve.send(`/who/${eve.id}/key`, body)).status).toBe(200);
      expect((await server.get(`/who/${eve.id}`)).json.public_key).toBe(next.publicKey);
      expect((await eve.get('/dm')).json).toEqual({ error: 'invalid signature' });
      expect((await next.get('/dm')).status).toBe(200);
      const { keys } = (await server.get(`/who/${eve.id}/keys`)).json;
      expect(keys.map((key: { public_key: string }) => key.public_key)).toEqual([
        eve.publicKey,
        next.publicKey,
      ]);
      expect(
        verifySignature(
          Buffer.from(eve.publicKey, 'base64'),
          keys[1].proof.signed_text,
          Buffer.from(keys[1].sig, 'base64'),
        ),
      ).toBe(true);
      // A former key never registers a second identity.
      expect(refusal(await server.send('/register', { public_key: eve.publicKey }))).toEqual([
        200,
        { id: eve.id, profile_url: `/who/${eve.id}` },
      ]);
      const taken = {
        public_key: bob.publicKey,
        proof: bob.sign(`aicq-key-rotation|${eve.id}|${next.publicKey}|${bob.publicKey}`),
      };
      isRefused(await next.send(`/who/${eve.id}/key`, taken), 409, 'public key already registered');
    });
  });
}
