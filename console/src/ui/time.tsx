/** Times relative to now, with the exact time on hover and for screen readers. */
import { useEffect, useState } from 'preact/hooks';

const units: readonly [name: string, milliseconds: number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
];

/** `3m`, `2h 5m`; at most two units. */
export function durationText(milliseconds: number): string {
  const total = Math.max(0, milliseconds);
  const at = units.findIndex(([, size]) => total >= size);
  if (at === -1) return '0s';
  const [name, size] = units[at] as [string, number];
  const first = Math.floor(total / size);
  const next = units[at + 1];
  const rest = next === undefined || first >= 10 ? 0 : Math.floor((total - first * size) / next[1]);
  return rest === 0 || next === undefined ? `${first}${name}` : `${first}${name} ${rest}${next[0]}`;
}

/** One unit, `3m ago`: rows change once a minute instead of every second, and columns stay narrow. */
function agoText(atMs: number, nowMs: number): string {
  const age = nowMs - atMs;
  if (age < -1_000) return `in ${durationText(-age)}`;
  return age < 5_000 ? 'now' : `${durationText(age).split(' ', 1)[0]} ago`;
}

const exactFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });
const clockFormat = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium', hourCycle: 'h23' });
const minuteFormat = new Intl.DateTimeFormat(undefined, { timeStyle: 'short', hourCycle: 'h23' });
/** Over a longer time nobody reads the seconds. */
const secondsSpanMs = 15 * 60_000;

export function exactText(atMs: number): string {
  return `${exactFormat.format(atMs)} (${new Date(atMs).toISOString()})`;
}

/** The exact time is written when the pointer comes, because formatting it for every row of a list is slow. */
export function startExactTimes(): void {
  document.addEventListener('pointerover', ({ target }) => {
    const shown = target instanceof Element ? target.closest('time') : null;
    if (shown !== null) shown.title = exactText(Date.parse(shown.dateTime));
  });
}

/** The time of day at an end of a scale that is this long. */
export function clockText(atMs: number, spanMs: number): string {
  return (spanMs > secondsSpanMs ? minuteFormat : clockFormat).format(atMs);
}

/** One clock for all times on the page. */
const listeners = new Set<() => void>();
let clock: ReturnType<typeof setInterval> | undefined;

export function useClock(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const tell = (): void => setNow(Date.now());
    listeners.add(tell);
    clock ??= setInterval(() => document.hidden || listeners.forEach((listener) => listener()), 1_000);
    return () => {
      listeners.delete(tell);
      if (listeners.size > 0) return;
      clearInterval(clock);
      clock = undefined;
    };
  }, []);
  return now;
}

export function Ago({ at }: { at: number | string | null | undefined }) {
  const now = useClock();
  if (at === null || at === undefined) return <span class="none">–</span>;
  const atMs = typeof at === 'string' ? Date.parse(at) : at;
  return <time dateTime={new Date(atMs).toISOString()}>{agoText(atMs, now)}</time>;
}

/** How long something has lasted; with `isShort` in one unit, for columns. */
export function Since({ at, isShort = false }: { at: number | string; isShort?: boolean }) {
  const now = useClock();
  const atMs = typeof at === 'string' ? Date.parse(at) : at;
  const text = durationText(now - atMs);
  return <time dateTime={new Date(atMs).toISOString()}>{isShort ? text.split(' ', 1)[0] : text}</time>;
}
