/** Small charts: a line over time with its newest value in words. */
import type { ComponentChildren } from 'preact';
import { clockText } from './time.js';

export interface Point {
  readonly atMs: number;
  readonly value: number;
}

export interface ChartProps {
  readonly title: string;
  /** Oldest first. */
  readonly points: readonly Point[];
  readonly text: (value: number) => string;
  readonly fromMs: number;
  readonly toMs: number;
  /** Steps instead of slopes, for counts that change at once. */
  readonly isStepped?: boolean;
  /** Moments that stand out. */
  readonly marks?: readonly number[];
  readonly note?: string | undefined;
  /** Beside the title. */
  readonly children?: ComponentChildren;
}

const [width, height] = [600, 72];

export function Chart({
  title,
  points,
  text,
  fromMs,
  toMs,
  isStepped = false,
  marks = [],
  note,
  children,
}: ChartProps) {
  const span = Math.max(1, toMs - fromMs);
  const highest = Math.max(1, ...points.map(({ value }) => value));
  const x = (atMs: number): number => Math.max(0, Math.min(width, ((atMs - fromMs) / span) * width));
  const y = (value: number): number => height - 2 - (value / highest) * (height - 8);
  const line = points
    .map(({ atMs, value }, at) => {
      const before = points[at - 1];
      const step =
        isStepped && before !== undefined ? `L${x(atMs).toFixed(1)} ${y(before.value).toFixed(1)}` : '';
      return `${step}${at === 0 ? 'M' : 'L'}${x(atMs).toFixed(1)} ${y(value).toFixed(1)}`;
    })
    .join('');
  const [first, last] = [points[0], points.at(-1)];
  const area =
    first === undefined || last === undefined
      ? ''
      : `${line}L${x(last.atMs)} ${height}L${x(first.atMs)} ${height}Z`;
  const newest = last === undefined ? '–' : text(last.value);
  return (
    <figure class="chart">
      <figcaption>
        <span>{title}</span>
        {children}
        <strong>{newest}</strong>
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${newest} now, at most ${text(highest)}`}
      >
        <path class="chart-area" d={area} />
        <path class="chart-line" d={line} />
        {marks.map((atMs) => (
          <line class="chart-mark" key={atMs} x1={x(atMs)} x2={x(atMs)} y1={0} y2={height} />
        ))}
      </svg>
      <p class="chart-scale">
        <span>{clockText(fromMs, span)}</span>
        {note === undefined ? null : <span>{note}</span>}
        <span>{clockText(toMs, span)}</span>
      </p>
    </figure>
  );
}
