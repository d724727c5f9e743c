import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { loadConfig } from '../../src/core/settings/config.js';
import { Running } from '../server/running.js';
import { type Opened, launch, openPage, signInLink } from './browser.js';
import { type Demo, makeDemo } from './demo.js';

let directory: string;
let running: Running;
let browser: Browser;
let demo: Demo;
let opened: Opened;
let page: Page;
let alice: Stoa;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'stoa-console-'));
  const { rows } = loadConfig({ environment: { STOA_LOG_LEVEL: 'warn' }, directory: null });
  running = await Running.start({ engine: 'lmdb', data: directory }, { settings: rows });
  demo = await makeDemo(running);
  alice = new Stoa({ url: running.url, token: running.alice });
  browser = await launch();
  opened = await openPage(browser, { permissions: ['clipboard-read', 'clipboard-write'] });
  ({ page } = opened);
  await page.goto(await signInLink(running.stoa, running.url));
  await page.locator('.connection.live').waitFor();
});
afterAll(async () => {
  await browser.close();
  await running.stop();
  rmSync(directory, { recursive: true, force: true });
});
beforeEach(() => {
  opened.complaints.length = 0;
});

async function show(path: string, on = page): Promise<void> {
  await on.goto(`${running.url}/console/${path}${path.includes('?') ? '&' : '?'}user=alice`);
  await on.locator('.connection.live').waitFor();
}

describe('fleet', () => {
  test('shows what each agent does, and stops, starts and forgets one', async () => {
    await show('fleet');
    const row = page.locator('.agent-row', { hasText: 'scout-lisbon' });
    await row.getByText('Collect opening hours of the museums in Lisbon').waitFor();
    await row.getByText('notes/museums/lisbon/maat').waitFor();
    await page.locator('.agent-row', { hasText: 'crawler-old' }).click();
    await page.getByRole('button', { name: 'Forget' }).click();
    await page.getByRole('button', { name: 'Forget the agent' }).click();
    await page.getByText('crawler-old is forgotten.').waitFor();
    await expect.poll(() => page.locator('.agent-row', { hasText: 'crawler-old' }).count()).toBe(0);
    await page.locator('.agent-row', { hasText: 'nightly-report' }).click();
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await page.locator('.history').getByText('running → stopping').waitFor();
    const { items } = await alice.agents.list({ name: 'nightly-report' });
    expect(items[0]?.status).toBe('stopping');
  });

  test('answers a question that waits for a person', async () => {
    await show('fleet');
    await page.getByRole('button', { name: /question waiting/ }).click();
    await page.getByRole('button', { name: 'Answer' }).click();
    await page.getByRole('textbox', { name: 'Answer' }).fill('April counts.');
    await page.getByRole('button', { name: 'Send the answer' }).click();
    await page.getByText('Nobody waits for an answer.').waitFor();
    expect(await alice.tasks.get(demo.questionId)).toMatchObject({
      status: 'running',
      answer: 'April counts.',
    });
  });
});

describe('work', () => {
  test('takes a task from its holder, and cancels it', async () => {
    await show(`work/${demo.runningId}`);
    await page.locator('.held-bar').waitFor();
    await page.locator('.timeline').getByText('wrote notes/museums/lisbon/maat').waitFor();
    await page.getByRole('button', { name: 'Take over' }).click();
    await page.locator('dialog').getByRole('button', { name: 'Take over' }).click();
    await page.getByText('The task is back in the queue.').waitFor();
    await page.locator('.timeline').getByText('returned to the queue').waitFor();
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    await page.getByLabel('Reason').fill('not needed');
    await page.getByRole('button', { name: 'Cancel the task' }).click();
    await page.locator('.drawer .status', { hasText: 'cancelled' }).first().waitFor();
    expect(await alice.tasks.get(demo.runningId)).toMatchObject({
      status: 'cancelled',
      reason: 'not needed',
    });
  });

  test('tries a failed task again as a new task', async () => {
    await show('work');
    await page.locator('.card', { hasText: 'Draft the reply to the harbour office' }).click();
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.getByRole('button', { name: 'Create the task again' }).click();
    await page.getByText('The task is in the queue again.').waitFor();
    const id = decodeURIComponent(new URL(page.url()).pathname.split('/').at(-1) ?? '');
    expect(await alice.tasks.get(id)).toMatchObject({
      status: 'pending',
      command: 'Draft the reply to the harbour office',
    });
  });
});

describe('data', () => {
  test('edits a document, and shows both versions when somebody else was faster', async () => {
    await show('data/notes/museums%2Flisbon%2Fmaat');
    await page.getByRole('button', { name: 'Edit' }).click();
    await alice.data('notes').set('museums/lisbon/maat', { open: 'theirs' });
    await page.getByLabel('Value as JSON').fill('{"open": "mine"}');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('.conflict').getByText('theirs').waitFor();
    await page.getByRole('button', { name: 'Write mine over it' }).click();
    await page.locator('.json-string', { hasText: 'mine' }).waitFor();
    expect(await alice.data('notes').getEntry('museums/lisbon/maat')).toMatchObject({
      value: { open: 'mine' },
      version: 3,
    });
  });

  test('creates a document with a time to live, copies it as a command, and deletes it', async () => {
    await show('data/notes');
    await page.getByRole('button', { name: 'New document' }).click();
    await page.getByLabel('Key', { exact: true }).fill('from/the console');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByLabel('Value as JSON').fill('[1, 2]');
    await page.getByLabel(/Expires in seconds/).fill('3600');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    expect((await alice.data('notes').getEntry('from/the console'))?.expiresAt).not.toBeNull();
    await page.getByRole('button', { name: 'Copy as CLI command' }).click();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(
      "stoa data get 'from/the console' -n 'notes' --user 'alice'",
    );
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.locator('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('The document is deleted.').waitFor();
    expect(await alice.data('notes').getEntry('from/the console')).toBeUndefined();
  });
});

describe('rooms', () => {
  test('posts as the signed-in person, searches, and shows who is proven', async () => {
    await show('rooms/global');
    await page.getByRole('textbox', { name: 'Message', exact: true }).fill('Is anybody in Quito?');
    await page.getByRole('button', { name: 'Post' }).click();
    await page
      .locator('.message', { hasText: 'Is anybody in Quito?' })
      .getByText('signed by the server')
      .waitFor();
    await page.getByLabel('Search messages').fill('Quito');
    await page.getByLabel('Search messages').press('Enter');
    await page.locator('.message', { hasText: 'Is anybody in Quito?' }).waitFor();
  });
});

describe('feed', () => {
  test('shows a change at once, pauses, filters, and shares a position as an address', async () => {
    await show('feed');
    await alice.data('notes').set('live', 1);
    await page.locator('.change-row', { hasText: 'notes/live' }).first().waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await alice.data('notes').set('later', 1);
    await page.getByRole('button', { name: /Go on \(\d+ new\)/ }).waitFor();
    expect(await page.locator('.change-row', { hasText: 'notes/later' }).count()).toBe(0);
    await page.locator('.change-row', { hasText: 'notes/live' }).first().getByRole('button').click();
    const link = String(await page.evaluate('navigator.clipboard.readText()'));
    await page.goto(link);
    await page.locator('.change-row', { hasText: 'notes/live' }).first().waitFor();
    expect(await page.locator('.change-row', { hasText: 'notes/later' }).count()).toBe(0);
    await page.getByLabel('Filter changes').fill('notes/live');
    await page.locator('.change-line', { hasText: 'notes/live' }).first().click();
    await page.getByRole('complementary', { name: 'Document live' }).waitFor();
  });
});

describe('operations', () => {
  test('shows health and storage, takes and verifies a backup, examines, and lists settings', async () => {
    await page.goto(`${running.url}/console/operations`);
    await page.getByText('accepted').waitFor();
    await page.getByRole('cell', { name: 'kernel/changes' }).waitFor();
    await page.getByRole('button', { name: 'Examine' }).click();
    await page.getByText('no damage').waitFor();
    await page.getByRole('button', { name: 'Take a backup' }).click();
    await page.getByText('The backup is complete.').waitFor();
    await page.getByRole('button', { name: 'Verify' }).click();
    await page.getByText('verified').waitFor();
    const setting = page.getByRole('row', { name: /^log_level/ });
    await setting.getByText('STOA_LOG_LEVEL').waitFor();
  });
});

describe('everywhere', () => {
  test('keys go to pages and search everything', async () => {
    await show('feed');
    await page.locator('body').press('g');
    await page.locator('body').press('f');
    await page.getByRole('heading', { name: 'Fleet' }).waitFor();
    await page.locator('.agent-row').first().waitFor();
    await page.locator('body').press('/');
    await page.getByLabel(/Search agents/).fill('translator-ja');
    await page.locator('.hits a').first().waitFor();
    await page.getByLabel(/Search agents/).press('Enter');
    await page.getByRole('complementary', { name: 'Agent translator-ja' }).waitFor();
    await page.locator('body').press('/');
    await page.getByLabel(/Search agents/).fill('Sunflower');
    await page.locator('.hits a', { hasText: 'notes/ferries/osaka/beppu' }).click();
    await page.getByRole('complementary', { name: 'Document ferries/osaka/beppu' }).waitFor();
  });

  test('two browsers see each other’s changes, and a user sees nothing of another', async () => {
    const other = await openPage(browser);
    await other.page.goto(await signInLink(running.stoa, running.url, 'alice'));
    await other.page.locator('.connection.live').waitFor();
    await other.page.goto(`${running.url}/console/data/notes`);
    await other.page.locator('.connection.live').waitFor();
    await show('data/notes');
    await page.getByRole('button', { name: 'New document' }).click();
    await page.getByLabel('Key', { exact: true }).fill('seen-by-both');
    await page.getByRole('button', { name: 'Create' }).click();
    await other.page.locator('.tree-row', { hasText: 'seen-by-both' }).waitFor();
    const stranger = await openPage(browser);
    await stranger.page.goto(await signInLink(running.stoa, running.url, 'bob'));
    await stranger.page.locator('.connection.live').waitFor();
    await stranger.page.getByText('No agents yet').waitFor();
    await stranger.page.goto(`${running.url}/console/data/notes/seen-by-both?user=alice`);
    await stranger.page.getByText('This document does not exist').waitFor();
    await stranger.page.goto(`${running.url}/console/work/${demo.finalId}`);
    await stranger.page.getByText('No tasks yet').waitFor();
    await other.page.context().close();
    await stranger.page.context().close();
  });
});
