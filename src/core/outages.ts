/** Times when no server ran. Leases are extended by these times. */

export interface Outage {
  fromMs: number;
  toMs: number;
}

/**
 * The end of a lease, extended by every outage that began while it was alive. It is computed on each
 * read, so that a restart does not have to rewrite a million leases.
 */
export function extendedByOutages(
  renewedAtMs: number,
  expiresAtMs: number,
  outages: readonly Outage[],
): number {
  let endMs = expiresAtMs;
  for (const { fromMs, toMs } of outages) {
    if (fromMs >= renewedAtMs && fromMs < endMs) endMs += toMs - fromMs;
  }
  return endMs;
}
