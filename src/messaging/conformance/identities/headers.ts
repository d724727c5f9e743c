/** The four X-AICQ headers on every backend: which error is reported first, and the exact limits. */
import { randomBytes } from 'node:crypto';
import type { TestRunner } from '../../../core/test-runner.js';
import { verifySignature } from '../../../identity/signatures.js';
import { type Backend, Agent, type MessagingServer } from '../kit/server.js';
import { writtenPort } from '../kit/written-port.js';

const body = JSON.stringify({ body: 'signed' });
const unknownId = '11111111-2222-4333-8444-555555555555';

export function headerTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  describe(`the four headers on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;
    /** A fixed clock, so that limits are exact to the millisecond. */
    const nowMs = Date.now();

    beforeAll(async () => {
      server = await backend.open({ clock: () => nowMs });
      ann = await server.agent('Ann');
    });
    afterAll(() => server.close());

    const post = async (headers: Record<string, string>) => {
      const { status, json } = await server.ask('POST', '/room/global', { raw: body, headers });
      return status === 401 ? json.error : status;
    };
    const signed = (options: Parameters<Agent['headers']>[1] = {}) =>
      ann.headers(body, { timestamp: nowMs, ...options });

    it("report the first of several faults, in AICQ's order", async () => {
      const used = signed();
      expect(await post(used)).toBe(201);
      const bad = {
        'x-aicq-agent': 'nobody',
        'x-aicq-nonce': 'short',
        'x-aicq-timestamp': 'soon',
        'x-aicq-signature': 'AAAA',
      };
      const { 'x-aicq-signature': _, ...missing } = bad;
      expect(await post(missing)).toBe('missing auth headers');
      expect(await post(bad)).toBe('invalid timestamp format');
      expect(await post({ ...bad, 'x-aicq-timestamp': String(nowMs - 60_000) })).toBe(
        'timestamp expired or too far in future',
      );
      expect(await post({ ...bad, 'x-aicq-timestamp': String(nowMs) })).toBe(
        'nonce must be at least 24 characters',
      );
      // A replay is reported before other errors.
      expect(await post({ ...used, 'x-aicq-signature': 'AAAA' })).toBe('nonce already used');
      const inTime = {
        ...bad,
        'x-aicq-timestamp': String(nowMs),
        'x-aicq-nonce': randomBytes(16).toString('hex'),
      };
      expect(await post(inTime)).toBe('invalid agent ID format');
      expect(await post({ ...inTime, 'x-aicq-agent': unknownId })).toBe('agent not found');
      expect(await post({ ...inTime, 'x-aicq-agent': ann.id })).toBe('invalid signature');
    });

    it('are refused for an agent whose stored key is invalid', async () => {
      const registered = await writtenPort(server.stoa.messaging).register({
        publicKey: Buffer.alloc(32).toString('base64'),
        name: null,
        email: null,
        proven: false,
      });
      // With such a key this signature would be valid for every text.
      const forged = Buffer.concat([Buffer.alloc(1, 1), Buffer.alloc(63)]).toString('base64');
      for (const signature of ['AAAA', forged])
        expect(
          await post({ ...signed({ agent: registered.identity.id }), 'x-aicq-signature': signature }),
        ).toBe('invalid agent public key');
    });

    for (const [aheadMs, status] of [
      [-30_000, 401],
      [-29_999, 201],
      [0, 201],
      [5_000, 201],
      [5_001, 401],
    ] as const)
      it(`with a clock that is ${aheadMs} ms ahead are answered ${status}`, async () => {
        expect(await post(signed({ timestamp: nowMs + aheadMs }))).toBe(
          status === 201 ? 201 : 'timestamp expired or too far in future',
        );
      });

    it('accept nonces of 24 to 128 characters', async () => {
      for (const length of [24, 128])
        expect(
          await post(signed({ nonce: randomBytes(64).toString('hex').slice(0, length) })),
          String(length),
        ).toBe(201);
    });

    it('accept a timestamp in one spelling only', async () => {
      for (const timestamp of [
        `0${nowMs}`,
        `+${nowMs}`,
        `${nowMs}.0`,
        `${nowMs / 1000}e3`,
        '',
        '9'.repeat(30),
      ])
        expect(await post(signed({ timestamp })), timestamp).toMatch(
          /^(missing auth headers|invalid timestamp format)$/,
        );
    });

    it('prove a registration later, when it comes signed with its key', async () => {
      const eve = new Agent(server);
      const raw = JSON.stringify({ public_key: eve.publicKey, name: 'Mallory' });
      const unsigned = await server.send('/register', { public_key: eve.publicKey, name: 'Eve' });
      const profile = async () => (await server.get(`/who/${unsigned.json.id}`)).json;
      expect(await profile()).not.toHaveProperty('proven');
      const { 'x-aicq-agent': _, ...headers } = eve.headers(raw, { timestamp: nowMs });
      const again = await server.ask('POST', '/register', { raw, headers });
      expect([again.status, again.json]).toEqual([200, unsigned.json]);
      expect(await profile()).toMatchObject({ name: 'Eve', proven: true });
    });

    it('are stored with a direct message too, so that its reader can verify the author', async () => {
      const bob = await server.agent();
      expect((await server.ask('POST', `/dm/${bob.id}`, { raw: body, headers: signed() })).status).toBe(201);
      const [letter] = (await server.get('/dm?verify=1', bob.headers('', { timestamp: nowMs }))).json
        .messages;
      expect(
        verifySignature(
          Buffer.from(ann.publicKey, 'base64'),
          letter.proof.signed_text,
          Buffer.from(letter.sig, 'base64'),
        ),
      ).toBe(true);
      expect([letter.proof.public_key, letter.proof.request]).toEqual([ann.publicKey, body]);
    });
  });
}
