/**
 * What a page costs the main thread of the browser, in processor time. The suites share the machine with databases, and
 * the wall clock of a task would measure those.
 */
import type { Browser, Page } from 'playwright-core';

interface TraceEvent {
  readonly name: string;
  readonly ph: string;
  readonly pid: number;
  readonly tid: number;
  /** Wall time and processor time in microseconds. */
  readonly dur: number;
  readonly tdur?: number;
  readonly args: { readonly name?: string };
}

export interface MainThread {
  readonly longestMs: number;
  readonly totalMs: number;
}

/** Runs `act`, and says what the tasks of the main thread took meanwhile. */
export async function mainThread(
  browser: Browser,
  page: Page,
  act: () => Promise<void>,
): Promise<MainThread> {
  await browser.startTracing(page, { categories: ['disabled-by-default-devtools.timeline'] });
  await act().catch(async (error: unknown) => {
    await browser.stopTracing();
    throw error;
  });
  const trace = await browser.stopTracing();
  // The format of chromium's traces.
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] };
  const threadOf = ({ pid, tid }: TraceEvent): string => `${pid} ${tid}`;
  const mains = new Set(
    traceEvents
      .filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain')
      .map(threadOf),
  );
  const tasks = traceEvents.filter(
    (event) => event.name === 'RunTask' && event.ph === 'X' && mains.has(threadOf(event)),
  );
  if (!tasks.some(({ tdur }) => tdur !== undefined))
    throw new Error('The trace has no processor time of tasks.');
  // Chromium measures no processor time of a few tasks of microseconds. It is at most their wall time.
  const times = tasks.map(({ dur, tdur = dur }) => tdur / 1_000);
  return { longestMs: Math.max(...times), totalMs: times.reduce((sum, each) => sum + each, 0) };
}
