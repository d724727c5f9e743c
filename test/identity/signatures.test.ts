import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  aicqSignedText,
  decodePublicKey,
  decodeSignature,
  sign,
  signingKeysOf,
  verifySignature,
} from '../../src/identity/signatures.js';
import {
  contentDigest,
  digestMatches,
  parseSignatureInput,
  parseSignatures,
  signatureBase,
} from '../../src/identity/signatures-rfc9421.js';
import vectors from '../vectors/messaging-signing.json' with { type: 'json' };

describe('the X-AICQ signature', () => {
  it.each(vectors.vectors)('signs and verifies the published vector $nonce', (vector) => {
    const keys = signingKeysOf(Buffer.from(vector.seed, 'base64'));
    expect(keys.publicKey.toString('base64')).toBe(vector.public_key);
    const text = aicqSignedText(Buffer.from(vector.body), vector.nonce, String(vector.timestamp_ms));
    expect(text).toBe(vector.signed_text);
    expect(sign(keys.secretKey, text).toString('base64')).toBe(vector.signature);
    const signature = decodeSignature(vector.signature) as Buffer;
    expect(verifySignature(keys.publicKey, text, signature)).toBe(true);
    expect(verifySignature(keys.publicKey, `${text} `, signature)).toBe(false);
  });
});

describe('a public key', () => {
  const good = vectors.vectors[0]?.public_key as string;

  it('is accepted in canonical base64 only', () => {
    expect(decodePublicKey(good)?.length).toBe(32);
    for (const other of [
      good.replace('=', ''),
      ` ${good}`,
      `${good}\n`,
      good.replace('E=', 'F='),
      good.slice(4),
      good + good,
      '',
      '====',
    ]) {
      expect(decodePublicKey(other), JSON.stringify(other)).toBeUndefined();
    }
  });

  it('is refused when its point has small order, is not canonical or is not on the curve', () => {
    const order8 = 'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a';
    const notCanonical = 'f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f';
    const bad = [
      '00'.repeat(32),
      `01${'00'.repeat(31)}`,
      `ec${'ff'.repeat(30)}7f`,
      `ed${'ff'.repeat(30)}7f`,
      order8,
      notCanonical,
      `02${'00'.repeat(31)}`,
    ];
    for (const hex of bad)
      expect(decodePublicKey(Buffer.from(hex, 'hex').toString('base64')), hex).toBeUndefined();
  });
});

describe('an RFC 9421 signature', () => {
  it('parses the components and parameters of every label', () => {
    const inputs = parseSignatureInput(
      'a=("@method" "content-digest");created=1618884473;keyid="k;(\\"x\\")", sig-b2=();nonce="n"',
    );
    expect(
      inputs?.map(({ label, components, created, keyId, nonce }) => ({
        label,
        components,
        created,
        keyId,
        nonce,
      })),
    ).toEqual([
      {
        label: 'a',
        components: ['@method', 'content-digest'],
        created: 1618884473,
        keyId: 'k;("x")',
        nonce: undefined,
      },
      { label: 'sig-b2', components: [], created: undefined, keyId: undefined, nonce: 'n' },
    ]);
  });

  it('refuses input that does not parse instead of guessing', () => {
    for (const bad of ['a', 'a=', 'a=("x"', 'a=("x";sf)', 'a=("x" "x")', 'a=("x"),,', 'a="x"', 'A=("x")'])
      expect(parseSignatureInput(bad), bad).toBeUndefined();
    expect(parseSignatures('a=:!!:')).toBeUndefined();
  });

  it('builds the base of the example of RFC 9421, section B.2.6', () => {
    const parameters =
      '("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"';
    const headers = {
      date: 'Tue, 20 Apr 2021 02:07:55 GMT',
      'content-type': 'application/json',
      'content-length': '18',
    };
    const components = parseSignatureInput(`sig-b26=${parameters}`)?.[0]?.components ?? [];
    const base = signatureBase(
      { method: 'POST', targetUri: 'https://example.com/foo?param=Value&Pet=dog', headers },
      components,
      parameters,
    );
    const key = Buffer.from('JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=', 'base64');
    const signature = parseSignatures(
      'sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:',
    )?.get('sig-b26') as Buffer;
    expect(verifySignature(key, base as string, signature)).toBe(true);
  });

  it('checks every known digest and requires at least one', () => {
    const body = Buffer.from('{"hello": "world"}');
    expect(contentDigest(body)).toBe('sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:');
    expect(digestMatches(contentDigest(body), body)).toBe(true);
    expect(digestMatches(contentDigest(body), Buffer.from('{}'))).toBe(false);
    expect(digestMatches('md5=:AAAA:', body)).toBe(false);
    const long = `sha-512=:${createHash('sha512').update(body).digest('base64')}:`;
    expect(digestMatches(`md5=:AAAA:, ${long}, ${contentDigest(body)}, ${long}`, body)).toBe(true);
    expect(digestMatches(`${contentDigest(body)}, ${contentDigest(body)}, sha-256=:AAAA:`, body)).toBe(false);
    expect(digestMatches(`${contentDigest(body)}, ${long.replace('512', '256')}`, body)).toBe(false);
    expect(digestMatches('', body)).toBe(false);
  });
});
