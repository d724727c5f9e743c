/** The rest of a lease, as a bar and in words. */
import { durationText, exactText, useClock } from './time.js';

/** Below this share of the whole lease the bar warns. */
const lowShare = 0.25;

export function Lease({ untilMs, wholeMs, about }: { untilMs: number; wholeMs: number; about: string }) {
  const now = useClock();
  const leftMs = Math.max(0, untilMs - now);
  const share = Math.min(1, leftMs / Math.max(1, wholeMs));
  return (
    <span class="lease" title={`${about} until ${exactText(untilMs)}`}>
      <span class="lease-bar">
        <span class={share < lowShare ? 'low' : ''} style={{ transform: `scaleX(${share.toFixed(3)})` }} />
      </span>
      <span>{durationText(leftMs)}</span>
    </span>
  );
}
