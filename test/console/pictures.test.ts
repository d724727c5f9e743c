/** Makes the pictures of the documentation; with SCREENSHOTS=write it replaces those in docs/pictures. */
import { mkdirSync, mkdtempSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Running } from '../server/running.js';
import { launch, openPage, signInLink } from './browser.js';
import { type Demo, makeDemo } from './demo.js';

const writes = process.env['SCREENSHOTS'] === 'write';
const docsFolder = fileURLToPath(new URL('../../docs/pictures/', import.meta.url));
const otherFolder =
  writes || process.env['SCREENSHOTS'] === undefined
    ? mkdtempSync(join(tmpdir(), 'stoa-pictures-'))
    : process.env['SCREENSHOTS'];
/** The pictures that README and docs show. */
const documented = new Set(['fleet.png', 'task-running.png', 'data-dark.png']);
/** So that a clone stays small. */
const pictureBytesMax = 150_000;

let running: Running;
let browser: Browser;
let demo: Demo;

beforeAll(async () => {
  for (const folder of [docsFolder, otherFolder]) mkdirSync(folder, { recursive: true });
  running = await Running.start();
  demo = await makeDemo(running);
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  await running.stop();
});

interface Picture {
  name: string;
  path: (made: Demo) => string;
  /** Something that shows that the page is ready. */
  wait: string;
  click?: string;
}

const pictures: readonly Picture[] = [
  { name: 'fleet', path: () => 'fleet', wait: '.agent-row', click: '.tile.needs' },
  { name: 'agent', path: ({ agents }) => `fleet/${agents.get('scout-lisbon')}`, wait: '.history li' },
  { name: 'work', path: () => 'work', wait: '.card:visible' },
  { name: 'task', path: ({ finalId }) => `work/${finalId}`, wait: '.node' },
  { name: 'task-running', path: ({ runningId }) => `work/${runningId}`, wait: '.held-bar' },
  { name: 'data', path: () => 'data/notes/museums%2Flisbon%2Fazulejo', wait: '.json-line' },
  { name: 'rooms', path: () => 'rooms/global', wait: '.message' },
  { name: 'feed', path: () => 'feed', wait: '.change-row' },
  { name: 'operations', path: () => 'operations?all', wait: '.chart-line' },
];

const views = [
  { suffix: '', colorScheme: 'light', viewport: { width: 1280, height: 800 } },
  { suffix: '-dark', colorScheme: 'dark', viewport: { width: 1280, height: 800 } },
  { suffix: '-narrow', colorScheme: 'light', viewport: { width: 390, height: 844 } },
] as const;

test.each(views)('every page can be pictured: $colorScheme, $viewport.width px', async (view) => {
  const { page, complaints } = await openPage(browser, view);
  await page.goto(await signInLink(running.stoa, running.url));
  await page.locator('.connection.live').waitFor();
  for (const { name, path, wait, click } of pictures) {
    const at = path(demo);
    await page.goto(`${running.url}/console/${at}${at.includes('?') ? '' : '?user=alice'}`);
    await page.locator(wait).first().waitFor();
    if (click !== undefined) await page.locator(click).first().click();
    await page.waitForTimeout(400);
    const fileName = `${name}${view.suffix}.png`;
    const file = join(writes && documented.has(fileName) ? docsFolder : otherFolder, fileName);
    await page.screenshot({ path: file, animations: 'disabled' });
    expect(statSync(file).size).toBeLessThan(pictureBytesMax);
  }
  expect(complaints).toEqual([]);
  await page.context().close();
});
