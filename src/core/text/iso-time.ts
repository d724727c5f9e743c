/** Times as the API writes them: ISO 8601 in UTC, with milliseconds. */

/** The last millisecond of the year 9999: later times have years of more than four digits. */
export const lastTimeMs = 253_402_300_799_999;

/** A stored time later than the year 9999 is written as its end. */
export function isoTime(atMs: number): string {
  return new Date(Math.min(atMs, lastTimeMs)).toISOString();
}

export function isoTimeOrNull(atMs: number | null): string | null {
  return atMs === null ? null : isoTime(atMs);
}
