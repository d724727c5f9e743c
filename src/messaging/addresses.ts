/** Addresses of callers: ranges, trusted proxies, and one spelling for each address. */
import { BlockList, isIP } from 'node:net';
import { StoaError } from '../core/errors.js';

/** Answers kept in memory; when there are more, all are forgotten. */
const answersMax = 10_000;

/** An IPv4 address inside IPv6, as URLs spell it. */
const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/** An IPv4 address inside IPv6 is that IPv4 address; a zone belongs to the machine, not to the caller. */
export function plainAddress(address: string): string {
  const known = plainAddresses.get(address);
  if (known !== undefined) return known;
  if (plainAddresses.size >= answersMax) plainAddresses.clear();
  const plain = madePlain(address);
  plainAddresses.set(address, plain);
  return plain;
}

/** Asked several times for each request. */
const plainAddresses = new Map<string, string>();

function madePlain(address: string): string {
  const withoutZone = address.split('%')[0] as string;
  if (isIP(withoutZone) !== 6) return withoutZone;
  const canonical = canonicalIpv6(withoutZone);
  const [, high = '', low = ''] = mapped.exec(canonical) ?? [];
  if (high === '') return canonical;
  return [high, low].flatMap((pair) => [parseInt(pair, 16) >> 8, parseInt(pair, 16) & 255]).join('.');
}

/** The spelling of RFC 5952. */
function canonicalIpv6(address: string): string {
  return new URL(`http://[${address}]`).hostname.slice(1, -1);
}

/**
 * Under which name requests from a plain address are counted and blocked. Whoever has one address of
 * IPv6 has the other 2^64 of its network too, so that all of them count as one.
 */
export function countedAddress(address: string): string {
  if (!address.includes(':')) return address;
  const known = networks.get(address);
  if (known !== undefined) return known;
  if (networks.size >= answersMax) networks.clear();
  const network =
    isIP(address) === 6 && !isLoopback(address) && !linkLocal.test(address) ? networkOf(address) : address;
  networks.set(address, network);
  return network;
}

const networks = new Map<string, string>();
/** All machines on a cable are in one such network. */
const linkLocal = /^fe[89ab]/;

function networkOf(address: string): string {
  const [before, after] = address.split('::').map((part) => part.split(':').filter((group) => group !== ''));
  const zeros = after === undefined ? 0 : 8 - (before?.length ?? 0) - after.length;
  const groups = [...(before ?? []), ...Array<string>(zeros).fill('0'), ...(after ?? [])];
  return `${canonicalIpv6(`${groups.slice(0, 4).join(':')}::`)}/64`;
}

/** A set of addresses and CIDR ranges. */
export class AddressRanges {
  readonly #list = new BlockList();
  readonly #empty: boolean;
  /** What was asked before: a lookup in the list costs more than the rest of a small request. */
  readonly #answers = new Map<string, boolean>();

  /** Throws `invalid_config` for an entry that is neither an address nor a range. */
  constructor(ranges: readonly string[], setting: string) {
    for (const range of ranges) this.#add(range.trim(), setting);
    this.#empty = ranges.length === 0;
  }

  has(address: string): boolean {
    if (this.#empty) return false;
    const known = this.#answers.get(address);
    if (known !== undefined) return known;
    const family = isIP(address);
    const found = family !== 0 && this.#list.check(address, family === 4 ? 'ipv4' : 'ipv6');
    if (this.#answers.size >= answersMax) this.#answers.clear();
    this.#answers.set(address, found);
    return found;
  }

  #add(range: string, setting: string): void {
    const [address = '', prefix, ...rest] = range.split('/');
    const family = isIP(address);
    const bits = family === 4 ? 32 : 128;
    const length = prefix === undefined ? bits : Number(prefix);
    if (
      family === 0 ||
      rest.length > 0 ||
      prefix === '' ||
      !Number.isInteger(length) ||
      length < 0 ||
      length > bits
    ) {
      throw new StoaError(
        'invalid_config',
        `Invalid address "${range}" in ${setting}. Expected an IP address or a CIDR range.`,
        { fix: 'Separate addresses by commas, for example 10.0.0.0/8,2001:db8::/32.' },
      );
    }
    this.#list.addSubnet(address, length, family === 4 ? 'ipv4' : 'ipv6');
  }
}

const loopback = new AddressRanges(['127.0.0.0/8', '::1'], 'loopback');

export function isLoopback(address: string): boolean {
  return loopback.has(address);
}

/**
 * The address of the caller. `X-Forwarded-For` counts only when the peer is a configured proxy, and only back
 * to the first hop that is not a proxy: the caller wrote everything left of it.
 */
export function callerAddress(
  peer: string,
  forwardedFor: string | undefined,
  proxies: AddressRanges,
): string {
  let address = plainAddress(peer);
  if (forwardedFor === undefined || !proxies.has(address)) return address;
  const hops = forwardedFor.split(',').map((hop) => plainAddress(hop.trim()));
  for (const hop of hops.toReversed()) {
    if (isIP(hop) === 0) return address;
    address = hop;
    if (!proxies.has(hop)) return address;
  }
  return address;
}
