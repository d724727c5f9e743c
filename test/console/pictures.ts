/**
 * `npm run screenshots` makes pictures of every page in both themes and at two widths. Those that README and docs show
 * replace the ones in docs/pictures; the others go to the folder in SCREENSHOTS, for the person who changes the console.
 */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { Running } from '../server/running.js';
import { launch, openPage, signInLink } from './browser.js';
import { type Demo, makeDemo } from './demo/demo.js';
import { Past } from './demo/past.js';

const docsFolder = fileURLToPath(new URL('../../docs/pictures/', import.meta.url));
const otherFolder = process.env['SCREENSHOTS'] ?? '';
/** The pictures that README and docs show. */
const documented = new Set([
  'fleet.png',
  'task-running.png',
  'data-dark.png',
  'operations-dark.png',
  'rooms.png',
]);
/** So that a clone stays small. */
const pictureBytesMax = 150_000;

interface Picture {
  name: string;
  path: (made: Demo) => string;
  /** Something that shows that the page is ready. */
  wait: string;
  act?: (page: Page) => Promise<void>;
  /** How long live data is collected before the picture. */
  collectMs?: number;
}

const pictures: readonly Picture[] = [
  { name: 'fleet', path: () => 'fleet', wait: '.agent-row' },
  {
    name: 'attention',
    path: () => 'fleet',
    wait: '.agent-row',
    act: (page) => page.locator('.tile.warn').click(),
  },
  { name: 'agent', path: ({ agents }) => `fleet/${agents.get('scout-lisbon')}`, wait: '.history li' },
  { name: 'work', path: () => 'work', wait: '.card:visible' },
  { name: 'task', path: ({ finalId }) => `work/${finalId}`, wait: '.node' },
  { name: 'task-question', path: ({ questionId }) => `work/${questionId}`, wait: '.timeline li' },
  { name: 'task-failed', path: ({ endedId }) => `work/${endedId}`, wait: '.timeline li' },
  {
    name: 'dialog',
    path: ({ runningId }) => `work/${runningId}`,
    wait: '.timeline li',
    act: (page) => page.getByRole('button', { name: 'Take over' }).click(),
  },
  { name: 'task-running', path: ({ runningId }) => `work/${runningId}`, wait: '.held-bar' },
  { name: 'data', path: () => 'data/notes/museums%2Flisbon%2Fazulejo', wait: '.json-line' },
  { name: 'data-newest', path: () => 'data', wait: '.newest-row' },
  { name: 'conflict', path: () => 'data/notes/museums%2Flisbon%2Fmaat', wait: '.json-line', act: conflict },
  { name: 'rooms-latest', path: () => 'rooms', wait: '.namespaces a' },
  { name: 'direct', path: () => 'rooms/direct', wait: '.empty' },
  { name: 'blocked', path: () => 'rooms/blocked', wait: '.empty' },
  { name: 'found', path: () => 'rooms?search=budget&user=alice', wait: '.message' },
  { name: 'search', path: () => 'fleet', wait: '.agent-row', act: search },
  {
    name: 'keys',
    path: () => 'fleet',
    wait: '.agent-row',
    act: (page) => page.keyboard.press('?'),
  },
  { name: 'empty-fleet', path: () => 'fleet?user=nobody', wait: '.empty' },
  { name: 'empty-work', path: () => 'work?user=nobody', wait: '.empty' },
  { name: 'empty-data', path: () => 'data?user=nobody', wait: '.empty' },
  { name: 'gone', path: () => 'work/gone', wait: '.drawer .empty' },
  { name: 'rooms', path: ({ threadId }) => `rooms/harbour/${threadId}`, wait: '.drawer .message' },
  { name: 'feed', path: () => 'feed', wait: '.change-row' },
  { name: 'operations', path: () => 'operations?all', wait: '.chart-line[d*="L"]', collectMs: 15_000 },
];

/** Somebody else writes while the person edits. */
async function conflict(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Edit' }).click();
  const notes = new Stoa({ url: running.url, token: running.alice, agent: 'scout-lisbon' }).data('notes');
  const before = await notes.getEntry('museums/lisbon/maat');
  await notes.set('museums/lisbon/maat', { open: '11:30', closed: ['Tuesday'], checked: true, sources: 2 });
  await page.getByLabel('Value as JSON').fill('{"open": "12:00", "closed": ["Tuesday"]}');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('.conflict').waitFor();
  await notes.set('museums/lisbon/maat', before?.value ?? null);
}

async function search(page: Page): Promise<void> {
  await page.keyboard.type('/lisbon');
  await page.locator('.hits a', { hasText: 'document' }).first().waitFor();
}

const views = [
  { suffix: '', colorScheme: 'light', viewport: { width: 1280, height: 800 } },
  { suffix: '-dark', colorScheme: 'dark', viewport: { width: 1280, height: 800 } },
  { suffix: '-narrow', colorScheme: 'light', viewport: { width: 390, height: 844 } },
  { suffix: '-dark-narrow', colorScheme: 'dark', viewport: { width: 390, height: 844 } },
] as const;

let directory: string;
let running: Running;
let browser: Browser;
let demo: Demo;
let heartbeats: NodeJS.Timeout;

beforeAll(async () => {
  for (const folder of [docsFolder, otherFolder]) mkdirSync(folder, { recursive: true });
  const past = Past.ofMinutes(60);
  directory = mkdtempSync(join(tmpdir(), 'stoa-pictures-'));
  running = await Running.start({ clock: past.clock, engine: 'lmdb', data: directory });
  demo = await makeDemo(running, undefined, past);
  // Leases are shorter than the pictures take, and the charts need something to show.
  heartbeats = setInterval(() => void past.keep(), 1_000);
  browser = await launch();
});
afterAll(async () => {
  clearInterval(heartbeats);
  await browser.close();
  await running.stop();
  rmSync(directory, { recursive: true, force: true });
  console.log(`The pictures are in ${docsFolder} and ${otherFolder}`);
});

test.each(views)(
  'every page can be pictured: $colorScheme, $viewport.width px',
  async (view) => {
    const { page, complaints } = await openPage(browser, view);
    await page.goto(await signInLink(running.stoa, running.url));
    await page.locator('.connection.live').waitFor();
    for (const { name, path, wait, act, collectMs = 400 } of pictures) {
      const at = path(demo);
      await page.goto(`${running.url}/console/${at}${at.includes('?') ? '' : '?user=alice'}`);
      await page.locator(wait).first().waitFor();
      await act?.(page);
      await page.waitForTimeout(collectMs);
      const fileName = `${name}${view.suffix}.png`;
      const file = join(documented.has(fileName) ? docsFolder : otherFolder, fileName);
      await page.screenshot({ path: file, animations: 'disabled' });
      expect(statSync(file).size).toBeLessThan(pictureBytesMax);
    }
    await page.evaluate('sessionStorage.clear()');
    await page.goto(`${running.url}/console/`);
    await page.locator('.sign-in').waitFor();
    await page.screenshot({ path: join(otherFolder, `sign-in${view.suffix}.png`) });
    // The refused write of the conflict is the only one.
    expect(complaints.filter((text) => !text.includes('412'))).toEqual([]);
    await page.context().close();
  },
  300_000,
);
