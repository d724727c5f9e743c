/** ChaCha20-Poly1305 as in RFC 8439, which the crypto of browsers does not have. No Node built-ins. */

const tagBytes = 16;
const constants = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574];

function rotated(value: number, bits: number): number {
  return ((value << bits) | (value >>> (32 - bits))) >>> 0;
}

function quarter(state: Uint32Array, a: number, b: number, c: number, d: number): void {
  // The four are indices below 16, where the array always has a value.
  const at = (index: number): number => state[index] as number;
  for (const [bits, more] of [
    [16, 12],
    [8, 7],
  ] as const) {
    state[a] = at(a) + at(b);
    state[d] = rotated(at(d) ^ at(a), bits);
    state[c] = at(c) + at(d);
    state[b] = rotated(at(b) ^ at(c), more);
  }
}

const columnsAndDiagonals = [
  [0, 4, 8, 12],
  [1, 5, 9, 13],
  [2, 6, 10, 14],
  [3, 7, 11, 15],
  [0, 5, 10, 15],
  [1, 6, 11, 12],
  [2, 7, 8, 13],
  [3, 4, 9, 14],
] as const;

function words(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: bytes.length / 4 }, (_, index) => view.getUint32(index * 4, true));
}

function block(key: Uint8Array, counter: number, nonce: Uint8Array): Uint8Array {
  const initial = Uint32Array.from([...constants, ...words(key), counter, ...words(nonce)]);
  const state = initial.slice();
  for (let round = 0; round < 10; round += 1)
    for (const [a, b, c, d] of columnsAndDiagonals) quarter(state, a, b, c, d);
  const stream = new Uint8Array(64);
  const view = new DataView(stream.buffer);
  for (const [index, value] of state.entries())
    view.setUint32(index * 4, (value + (initial[index] as number)) >>> 0, true);
  return stream;
}

function encrypted(key: Uint8Array, nonce: Uint8Array, text: Uint8Array): Uint8Array {
  const result = new Uint8Array(text.length);
  for (let from = 0; from < text.length; from += 64) {
    const stream = block(key, 1 + from / 64, nonce);
    for (let index = from; index < Math.min(from + 64, text.length); index += 1)
      result[index] = (text[index] as number) ^ (stream[index - from] as number);
  }
  return result;
}

function little(bytes: Uint8Array): bigint {
  let value = 0n;
  for (const byte of bytes.toReversed()) value = (value << 8n) | BigInt(byte);
  return value;
}

/** The tag over the ciphertext, without associated data. */
function tagOf(key: Uint8Array, nonce: Uint8Array, ciphertext: Uint8Array): Uint8Array {
  const once = block(key, 0, nonce);
  const r = little(once.slice(0, 16)) & 0x0ffffffc0ffffffc0ffffffc0fffffffn;
  const s = little(once.slice(16, 32));
  const lengths = new Uint8Array(16);
  new DataView(lengths.buffer).setUint32(8, ciphertext.length, true);
  const padded = new Uint8Array(Math.ceil(ciphertext.length / 16) * 16);
  padded.set(ciphertext);
  let sum = 0n;
  const take = (part: Uint8Array): void => {
    sum = ((sum + little(part) + (1n << 128n)) * r) % ((1n << 130n) - 5n);
  };
  for (let from = 0; from < padded.length; from += 16) take(padded.slice(from, from + 16));
  take(lengths);
  let rest = (sum + s) & ((1n << 128n) - 1n);
  return Uint8Array.from({ length: tagBytes }, () => {
    const byte = Number(rest & 255n);
    rest >>= 8n;
    return byte;
  });
}

/** Ciphertext and tag. */
export function seal(key: Uint8Array, nonce: Uint8Array, text: Uint8Array): Uint8Array {
  const ciphertext = encrypted(key, nonce, text);
  return Uint8Array.of(...ciphertext, ...tagOf(key, nonce, ciphertext));
}

/** The text, or undefined when a single bit was changed. */
export function open(key: Uint8Array, nonce: Uint8Array, sealed: Uint8Array): Uint8Array | undefined {
  if (sealed.length < tagBytes) return undefined;
  const ciphertext = sealed.slice(0, -tagBytes);
  const tag = tagOf(key, nonce, ciphertext);
  let difference = 0;
  for (const [index, byte] of sealed.slice(-tagBytes).entries()) difference |= byte ^ (tag[index] as number);
  return difference === 0 ? encrypted(key, nonce, ciphertext) : undefined;
}
