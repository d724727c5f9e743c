import { createHash, randomBytes } from 'node:crypto';
import { ed25519 as noble } from '@noble/curves/ed25519.js';
import { expect, test } from 'vitest';
import { type Ed25519, nodeEd25519, sodiumEd25519 } from '../../src/identity/ed25519.js';
import vectors from '../vectors/messaging-signing.json' with { type: 'json' };

const sodium = sodiumEd25519();
if (sodium === undefined) throw new Error('sodium-native is not installed.');
const both: readonly [string, Ed25519][] = [
  ['libsodium', sodium],
  ['Node', nodeEd25519],
];
const message = Buffer.from('a message');
const order = noble.Point.Fn.ORDER;

function littleEndian(number: bigint): Buffer {
  return Buffer.from(Buffer.from(number.toString(16).padStart(64, '0'), 'hex').toReversed());
}

function numberIn(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes.toReversed()).toString('hex')}`);
}

test.each(both)('%s makes the published keys and signatures', (_, engine) => {
  for (const { seed, public_key, signed_text, signature } of vectors.vectors) {
    const [secret, text] = [Buffer.from(seed, 'base64'), Buffer.from(signed_text)];
    const publicKey = engine.publicKeyOf(secret);
    expect(publicKey.toString('base64')).toBe(public_key);
    expect(engine.sign(text, Buffer.concat([secret, publicKey])).toString('base64')).toBe(signature);
  }
});

test.each(both)(
  '%s refuses a changed message, a changed signature and a second spelling of one',
  (_, engine) => {
    const seed = randomBytes(32);
    const publicKey = engine.publicKeyOf(seed);
    const signature = engine.sign(message, Buffer.concat([seed, publicKey]));
    expect(engine.verify(signature, message, publicKey)).toBe(true);
    expect(engine.verify(signature, Buffer.from('another'), publicKey)).toBe(false);
    for (let at = 0; at < signature.length; at += 7) {
      const changed = Buffer.from(signature);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(engine.verify(changed, message, publicKey)).toBe(false);
    }
    const scalar = numberIn(signature.subarray(32));
    const malleable = Buffer.concat([signature.subarray(0, 32), littleEndian(scalar + order)]);
    expect(engine.verify(malleable, message, publicKey)).toBe(false);
  },
);

test.each(both)(
  '%s refuses a signature whose point is the neutral one, although the equation holds',
  (_, engine) => {
    const seed = randomBytes(32);
    const { scalar, pointBytes } = noble.utils.getExtendedPublicKey(seed);
    const neutral = Buffer.from(noble.Point.ZERO.toBytes());
    const hash = createHash('sha512').update(neutral).update(pointBytes).update(message).digest();
    const challenge = numberIn(hash) % order;
    const signature = Buffer.concat([neutral, littleEndian((challenge * scalar) % order)]);
    expect(engine.verify(signature, message, Buffer.from(pointBytes))).toBe(false);
  },
);

test('both accept the same keys: points of the main subgroup, in one spelling', () => {
  const good = noble.Point.BASE.multiply(12_345n);
  const order8 = noble.Point.fromHex('c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a');
  const keys = [
    good.toBytes(),
    good.add(order8).toBytes(),
    order8.toBytes(),
    noble.Point.ZERO.toBytes(),
    Buffer.alloc(32),
    Buffer.alloc(32, 255),
    ...Array.from({ length: 200 }, () => randomBytes(32)),
  ];
  const answers = keys.map((key) => both.map(([, engine]) => engine.isValidKey(key)));
  expect(answers.filter(([one, other]) => one !== other)).toEqual([]);
  expect(answers.slice(0, 6).map(([one]) => one)).toEqual([true, false, false, false, false, false]);
});
