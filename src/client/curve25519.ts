/** Curve25519 in both its forms, for runtimes whose crypto has no X25519 and no way from one key to the other. No Node built-ins. */

const p = 2n ** 255n - 19n;
const d = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;
const baseX = 15112221349535400772501151409588531511454012693041857206046113283949847762202n;
const baseY = 46316835694926478169428394003475163141307993866256225615783033603165251855960n;

function mod(value: bigint): bigint {
  const rest = value % p;
  return rest < 0n ? rest + p : rest;
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  let square = mod(base);
  for (let left = exponent; left > 0n; left >>= 1n) {
    if ((left & 1n) === 1n) result = mod(result * square);
    square = mod(square * square);
  }
  return result;
}

function inverse(value: bigint): bigint {
  return power(value, p - 2n);
}

function numberOf(bytes: Uint8Array): bigint {
  let value = 0n;
  for (const byte of bytes.toReversed()) value = (value << 8n) | BigInt(byte);
  return value;
}

function bytesOf(value: bigint): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(32);
  let rest = value;
  for (let index = 0; index < 32; index += 1) {
    bytes[index] = Number(rest & 255n);
    rest >>= 8n;
  }
  return bytes;
}

/** The secret number in the first half of the hash of a seed. */
async function scalarOf(seed: Uint8Array<ArrayBuffer>): Promise<bigint> {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-512', seed)).slice(0, 32);
  return numberOf(clamped(hash));
}

function clamped(bytes: Uint8Array): Uint8Array {
  const copy = bytes.slice();
  copy[0] = (copy[0] as number) & 248;
  copy[31] = ((copy[31] as number) & 127) | 64;
  return copy;
}

interface Point {
  x: bigint;
  y: bigint;
  z: bigint;
  t: bigint;
}

function add(a: Point, b: Point): Point {
  const left = mod((a.y - a.x) * (b.y - b.x));
  const right = mod((a.y + a.x) * (b.y + b.x));
  const both = mod(2n * a.t * b.t * d);
  const scale = mod(2n * a.z * b.z);
  const [e, f, g, h] = [right - left, scale - both, scale + both, right + left];
  return { x: mod(e * f), y: mod(g * h), z: mod(f * g), t: mod(e * h) };
}

/** The Ed25519 public key of a seed. */
export async function publicKeyOf(seed: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  let point: Point = { x: 0n, y: 1n, z: 1n, t: 0n };
  let doubled: Point = { x: baseX, y: baseY, z: 1n, t: mod(baseX * baseY) };
  for (let left = await scalarOf(seed); left > 0n; left >>= 1n) {
    if ((left & 1n) === 1n) point = add(point, doubled);
    doubled = add(doubled, doubled);
  }
  const scale = inverse(point.z);
  const bytes = bytesOf(mod(point.y * scale));
  if ((mod(point.x * scale) & 1n) === 1n) bytes[31] = (bytes[31] as number) | 128;
  return bytes;
}

/** The X25519 public key of the same pair as an Ed25519 public key. */
export function exchangeKeyOf(publicKey: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = publicKey.slice();
  copy[31] = (copy[31] as number) & 127;
  const y = numberOf(copy);
  return bytesOf(mod((1n + y) * inverse(1n - y)));
}

/** The X25519 secret of the same pair as an Ed25519 seed. */
export async function exchangeSecretOf(seed: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return bytesOf(await scalarOf(seed));
}

/** What two parties share: RFC 7748's ladder. All zeros, which a hostile key would force, is refused. */
export function sharedSecret(secret: Uint8Array, peer: Uint8Array): Uint8Array<ArrayBuffer> {
  const scalar = numberOf(clamped(secret));
  const masked = peer.slice();
  masked[31] = (masked[31] as number) & 127;
  const u = mod(numberOf(masked));
  let [x2, z2, x3, z3] = [1n, 0n, u, 1n];
  let swapped = 0n;
  for (let bit = 254n; bit >= 0n; bit -= 1n) {
    const set = (scalar >> bit) & 1n;
    if (set !== swapped) [x2, z2, x3, z3] = [x3, z3, x2, z2];
    swapped = set;
    const [a, b, c, e] = [mod(x2 + z2), mod(x2 - z2), mod(x3 + z3), mod(x3 - z3)];
    const [aa, bb, da, cb] = [mod(a * a), mod(b * b), mod(e * a), mod(c * b)];
    x3 = mod((da + cb) ** 2n);
    z3 = mod(u * (da - cb) ** 2n);
    x2 = mod(aa * bb);
    const difference = aa - bb;
    z2 = mod(difference * (aa + 121665n * difference));
  }
  if (swapped === 1n) [x2, z2] = [x3, z3];
  const shared = bytesOf(mod(x2 * inverse(z2)));
  if (shared.every((byte) => byte === 0)) throw new RangeError('The public key has small order.');
  return shared;
}

/** The public key of an X25519 secret. */
export function exchangePublicOf(secret: Uint8Array): Uint8Array<ArrayBuffer> {
  return sharedSecret(secret, bytesOf(9n));
}
