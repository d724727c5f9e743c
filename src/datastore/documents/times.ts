/** Times as the seed writes them: ISO 8601 in UTC. A time without a zone counts as UTC. */
import { StoaError } from '../../core/errors.js';

const pattern =
  /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}(?::\d{2})?)(?:[.,](\d+))?\s*([Zz]|[+-]\d{2}(?::?\d{2})?)?$/;

/** Times that are in the one spelling already. Days from the 29th on need a calendar. */
const normalised =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.(?!000)\d{3})?Z$/;

/** The one spelling of a time: `Z` at the end, no fraction for whole seconds, else three or six digits. */
export function normaliseTime(text: string): string {
  return normalised.test(text) ? text : formatMicros(microsOf(text));
}

/** A time in the spelling of `normaliseTime`. */
export function timeOfMs(ms: number): string {
  const text = new Date(Math.floor(ms)).toISOString();
  return text.endsWith('.000Z') ? `${text.slice(0, -5)}Z` : text;
}

/** An expiry always has milliseconds, so that comparing the texts compares the times. */
export function expiryOfMs(ms: number): string {
  return new Date(ms).toISOString();
}

/** The whole milliseconds before this time, also before 1970. */
export function msOf(text: string): number {
  const micros = microsOf(text);
  return Number((micros < 0n ? micros - 999n : micros) / 1000n);
}

/** The later of two times. Either may be missing. */
export function laterTime(a: string | null, b: string | null): string | null {
  if (a === null) return b;
  if (b === null) return a;
  // In one spelling, sorting the texts sorts the times.
  if (a.length === b.length && a.endsWith('Z') && b.endsWith('Z') && a[10] === b[10]) return a >= b ? a : b;
  return microsOf(a) >= microsOf(b) ? a : b;
}

/**
 * The range of years with four digits. A time with an offset can be outside of this range, and could then not
 * be read again.
 */
const earliestMs = Date.parse('0000-01-01T00:00:00Z');
export const latestMs = Date.parse('9999-12-31T23:59:59.999Z');

function microsOf(text: string): bigint {
  const match = pattern.exec(text);
  if (match !== null) {
    const [, day, clock = '', fraction = '', zone = 'Z'] = match;
    const offset = /^[+-]\d{2}$/.test(zone) ? `${zone}:00` : zone.toUpperCase();
    const ms = Date.parse(`${day}T${clock.length === 5 ? `${clock}:00` : clock}${offset}`);
    if (ms >= earliestMs && ms <= latestMs)
      return BigInt(ms) * 1000n + BigInt(fraction.slice(0, 6).padEnd(6, '0'));
  }
  throw new StoaError('invalid_data', `"${text}" is not an ISO 8601 time.`);
}

function formatMicros(micros: bigint): string {
  // The remainder of a time before 1970 is negative without the second step.
  const fraction = ((micros % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const seconds = new Date(Number((micros - fraction) / 1000n)).toISOString().slice(0, -5);
  if (fraction === 0n) return `${seconds}Z`;
  return fraction % 1000n === 0n
    ? `${seconds}.${digits(fraction / 1000n, 3)}Z`
    : `${seconds}.${digits(fraction, 6)}Z`;
}

function digits(value: bigint, width: number): string {
  return value.toString().padStart(width, '0');
}
