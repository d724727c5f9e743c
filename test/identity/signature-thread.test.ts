import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { SignatureThread } from '../../src/identity/signature-thread.js';
import { sign, signingKeysOf } from '../../src/identity/signatures.js';
import { type Agent, MessagingServer } from '../messaging/kit.js';
import { until } from '../until.js';

/** Every third signature is valid, one is of another text, and one is too long or too short. */
function verified(thread: SignatureThread, count: number): Promise<boolean[]> {
  return Promise.all(
    Array.from({ length: count }, (_, index) => {
      const keys = signingKeysOf(randomBytes(32));
      const text = `ä ${index} ${'x'.repeat(index)}`;
      const valid = sign(keys.secretKey, text);
      const wrong = index % 6 === 2 ? Buffer.concat([valid, Buffer.alloc(1_000)]) : valid.subarray(1);
      return thread.verify(
        keys.publicKey,
        index % 3 === 1 ? `${text}!` : text,
        index % 3 === 2 ? wrong : valid,
      );
    }),
  );
}

function everyThird(count: number): boolean[] {
  return Array.from({ length: count }, (_, index) => index % 3 === 0);
}

it('each signature has its own answer, before the thread is online, afterwards, and if it ends meanwhile', async () => {
  const thread = new SignatureThread();
  expect(await verified(thread, 50)).toEqual(everyThird(50));
  await until(() => thread.isOnline);
  expect(await verified(thread, 50)).toEqual(everyThird(50));
  const batches = Promise.all([verified(thread, 50), verified(thread, 2)]);
  // The batch is sent at the end of this turn.
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  thread.close();
  expect(await batches).toEqual([everyThird(50), everyThird(2)]);
  expect(thread.isOnline).toBe(false);
  expect(await verified(thread, 50)).toEqual(everyThird(50));
});

/** Bytes behind the signature. */
function long(headers: Record<string, string>): Record<string, string> {
  const signature = Buffer.from(String(headers['signature']?.slice('sig1=:'.length, -1)), 'base64');
  return {
    ...headers,
    signature: `sig1=:${Buffer.concat([signature, randomBytes(100)]).toString('base64')}:`,
  };
}

it('a server answers many signed requests at once, each by its own signature', async () => {
  const server = await MessagingServer.open();
  try {
    const agents = await Promise.all([server.agent(), server.agent()]);
    const [ada, bo] = agents as [Agent, Agent];
    const kinds: readonly [() => Record<string, string>, number][] = [
      [() => ada.headers(), 200],
      [() => bo.headers('', { agent: ada.id }), 401],
      [() => bo.messageSignature('GET', '/dm'), 200],
      [() => long(bo.messageSignature('GET', '/dm')), 401],
      [() => ada.headers('another body'), 401],
    ];
    for (let round = 0; round < 4; round += 1) {
      const sent = Array.from({ length: 40 }, (_, index) => kinds[index % kinds.length]);
      const answers = sent.map(
        async (kind) => (await server.ask('GET', '/dm', { headers: kind?.[0]() })).status,
      );
      expect(await Promise.all(answers)).toEqual(sent.map((kind) => kind?.[1]));
    }
  } finally {
    await server.close();
  }
});
