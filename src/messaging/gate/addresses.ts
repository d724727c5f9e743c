/** Addresses of callers: ranges, trusted proxies, and one spelling for each address. */
import { BlockList, isIP } from 'node:net';
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../core/entries-at-most.js';
import { StoaError } from '../../core/errors.js';

/** Addresses that a set of ranges remembers. */
const answersMax = 10_000;

/** An IPv4 address inside IPv6, as URLs spell it. */
const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/**
 * An IPv4 address inside IPv6 counts as that IPv4 address. The zone is removed, because it belongs to this
 * machine and not to the caller.
 */
export function plainAddress(address: string): string {
  if (!address.includes(':')) return address;
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
 * The name under which requests from an address are counted and blocked. A client with one IPv6 address can
 * use all 2^64 addresses of its network, so the network counts as one address.
 */
export function countedAddress(address: string): string {
  if (!address.includes(':')) return address;
  return isIP(address) === 6 && !isLoopback(address) && !linkLocal.test(address)
    ? networkOf(address)
    : address;
}

/** All machines of one local network share this prefix. */
const linkLocal = /^fe[89ab]/;

const trailingZeros = /(?:^|:)0(?::0)*$/;

/** The network of an address. Both are in the spelling of RFC 5952. */
function networkOf(address: string): string {
  const [before, after] = address.split('::').map((part) => part.split(':').filter((group) => group !== ''));
  const zeros = after === undefined ? 0 : 8 - (before?.length ?? 0) - after.length;
  const groups = [...(before ?? []), ...Array<string>(zeros).fill('0'), ...(after ?? [])];
  // The zeros at the end are the longest run of zeros, which RFC 5952 leaves out.
  return `${groups.slice(0, 4).join(':').replace(trailingZeros, '')}::/64`;
}

/** A set of addresses and CIDR ranges. */
export class AddressRanges {
  readonly #list = new BlockList();
  readonly #empty: boolean;
  /**
   * Entries do not expire, because the ranges do not change. Behind a proxy it saves 4 µs for each request, 7
   * % of a GET.
   */
  readonly #answers = new LRUCache<string, boolean>(entriesAtMost(answersMax));

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

/** Whether the address belongs to this machine. */
export function isLoopback(address: string): boolean {
  return address === '::1' || (address.startsWith('127.') && isIP(address) === 4);
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
