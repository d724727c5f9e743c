/**
 * `npm run screenshots` makes pictures of every page in both themes and at two widths. Those that README and docs show
 * replace the ones in docs/pictures; the others go to the folder in SCREENSHOTS, for the person who changes the console.
 */
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
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
  click?: string;
  /** How long live data is collected before the picture. */
  collectMs?: number;
}

const pictures: readonly Picture[] = [
  { name: 'fleet', path: () => 'fleet', wait: '.agent-row', click: '.tile.needs' },
  { name: 'agent', path: ({ agents }) => `fleet/${agents.get('scout-lisbon')}`, wait: '.history li' },
  { name: 'work', path: () => 'work', wait: '.card:visible' },
  { name: 'task', path: ({ finalId }) => `work/${finalId}`, wait: '.node' },
  { name: 'task-running', path: ({ runningId }) => `work/${runningId}`, wait: '.held-bar' },
  { name: 'data', path: () => 'data/notes/museums%2Flisbon%2Fazulejo', wait: '.json-line' },
  { name: 'rooms', path: ({ threadId }) => `rooms/harbour/${threadId}`, wait: '.drawer .message' },
  { name: 'feed', path: () => 'feed', wait: '.change-row' },
  { name: 'operations', path: () => 'operations?all', wait: '.chart-line[d*="L"]', collectMs: 25_000 },
];

const views = [
  { suffix: '', colorScheme: 'light', viewport: { width: 1280, height: 800 } },
  { suffix: '-dark', colorScheme: 'dark', viewport: { width: 1280, height: 800 } },
  { suffix: '-narrow', colorScheme: 'light', viewport: { width: 390, height: 844 } },
  { suffix: '-dark-narrow', colorScheme: 'dark', viewport: { width: 390, height: 844 } },
] as const;

let running: Running;
let browser: Browser;
let demo: Demo;
let heartbeats: NodeJS.Timeout;

beforeAll(async () => {
  for (const folder of [docsFolder, otherFolder]) mkdirSync(folder, { recursive: true });
  const past = Past.ofMinutes(60);
  running = await Running.start({ clock: past.clock });
  demo = await makeDemo(running, past);
  // Leases are shorter than the pictures take, and the charts need something to show.
  heartbeats = setInterval(() => void past.keep(), 1_000);
  browser = await launch();
});
afterAll(async () => {
  clearInterval(heartbeats);
  await browser.close();
  await running.stop();
  console.log(`The pictures are in ${docsFolder} and ${otherFolder}`);
});

test.each(views)('every page can be pictured: $colorScheme, $viewport.width px', async (view) => {
  const { page, complaints } = await openPage(browser, view);
  await page.goto(await signInLink(running.stoa, running.url));
  await page.locator('.connection.live').waitFor();
  for (const { name, path, wait, click, collectMs = 400 } of pictures) {
    const at = path(demo);
    await page.goto(`${running.url}/console/${at}${at.includes('?') ? '' : '?user=alice'}`);
    await page.locator(wait).first().waitFor();
    if (click !== undefined) await page.locator(click).first().click();
    await page.waitForTimeout(collectMs);
    const fileName = `${name}${view.suffix}.png`;
    const file = join(documented.has(fileName) ? docsFolder : otherFolder, fileName);
    await page.screenshot({ path: file, animations: 'disabled' });
    expect(statSync(file).size).toBeLessThan(pictureBytesMax);
  }
  expect(complaints).toEqual([]);
  await page.context().close();
});
