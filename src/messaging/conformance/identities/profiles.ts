/** Profiles and the change of a key. */
import { verifySignature } from '../../../identity/signatures.js';
import { type TestRunner } from '../../../core/test-runner.js';
import { Agent, type Backend, type Desk, roomy } from '../kit/desk.js';
import { refusal } from '../kit/requests.js';

export function profileTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  describe(`profiles and keys on ${backend.name}`, () => {
    let desk: Desk;
    let bob: Agent;

    beforeAll(async () => {
      desk = await backend.open();
      bob = await desk.agent('Bob');
    });
    afterAll(() => desk.close());

    it('can be changed only by their owner', async () => {
      const eve = await desk.agent('Eve');
      const changed = await eve.ask('PATCH', `/who/${eve.id}`, {
        body: { name: 'Eva', email: 'eva@example.org' },
      });
      expect(changed.status).toBe(200);
      expect((await desk.ask('GET', `/who/${eve.id}`)).json).toMatchObject({
        name: 'Eva',
        email: 'eva@example.org',
      });
      expect(refusal(await bob.ask('PATCH', `/who/${eve.id}`, { body: { name: 'Mallory' } }))).toEqual([
        403,
        { error: 'can only change your own profile' },
      ]);
      expect((await desk.ask('PATCH', `/who/${eve.id}`, { body: { name: 'Mallory' } })).status).toBe(401);
    });

    it('keep only the newest keys of an identity', async () => {
      const bounded = await backend.open({ limits: { ...roomy, identityKeysMax: 2 } });
      try {
        let eve = await bounded.agent('Eve');
        const statuses: number[] = [];
        for (let rotation = 0; rotation < 2; rotation += 1) {
          const next = new Agent(bounded);
          next.id = eve.id;
          const proof = next.sign(`aicq-key-rotation|${eve.id}|${eve.publicKey}|${next.publicKey}`);
          const body = { public_key: next.publicKey, proof };
          const { status } = await eve.ask('POST', `/who/${eve.id}/key`, { body });
          statuses.push(status);
          if (status === 200) eve = next;
        }
        expect(statuses).toEqual([200, 409]);
        expect((await bounded.ask('GET', `/who/${eve.id}/keys`)).json.keys).toHaveLength(2);
        expect((await eve.ask('GET', '/dm')).status).toBe(200);
      } finally {
        await bounded.close();
      }
    });

    it('rotate to a new key if both keys sign, and keep the old key in the history', async () => {
      const eve = await desk.agent('Eve');
      const next = new Agent(desk);
      next.id = eve.id;
      const proof = next.sign(`aicq-key-rotation|${eve.id}|${eve.publicKey}|${next.publicKey}`);
      const body = { public_key: next.publicKey, proof };
      expect(
        refusal(await eve.ask('POST', `/who/${eve.id}/key`, { body: { ...body, proof: eve.sign('x') } })),
      ).toEqual([400, { error: 'invalid proof: the new key must sign the rotation' }]);
      expect((await eve.ask('POST', `/who/${eve.id}/key`, { body })).status).toBe(200);
      expect((await desk.ask('GET', `/who/${eve.id}`)).json.public_key).toBe(next.publicKey);
      expect((await eve.ask('GET', '/dm')).json).toEqual({ error: 'invalid signature' });
      expect((await next.ask('GET', '/dm')).status).toBe(200);
      const { keys } = (await desk.ask('GET', `/who/${eve.id}/keys`)).json;
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
      expect(refusal(await desk.ask('POST', '/register', { body: { public_key: eve.publicKey } }))).toEqual([
        200,
        { id: eve.id, profile_url: `/who/${eve.id}` },
      ]);
      const taken = {
        public_key: bob.publicKey,
        proof: bob.sign(`aicq-key-rotation|${eve.id}|${next.publicKey}|${bob.publicKey}`),
      };
      expect(refusal(await next.ask('POST', `/who/${eve.id}/key`, { body: taken }))).toEqual([
        409,
        { error: 'public key already registered' },
      ]);
    });
  });
}
