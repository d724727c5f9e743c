/** Times when no server ran: leases are extended by them. */

export interface Outage {
  fromMs: number;
  toMs: number;
}

/**
 * When a lease really ends: its own end, later by every outage that began while it was alive.
 * Pure, so that a restart need not rewrite a million leases.
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
