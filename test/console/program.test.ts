/** The console of the program as a person starts it: the first pages, and a server that is killed and comes back. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { type RunningServer, useProgram } from '../cli/program.js';
import { launch, openPage } from './browser.js';

const { stoa, up, path } = useProgram();
let server: RunningServer;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  server = await up(path('data'));
  browser = await launch();
  ({ page } = await openPage(browser));
  const { path: link } = await new Stoa({ url: server.url, token: server.token }).console.createLink();
  await page.goto(server.url + link);
  await page.locator('.connection.live').waitFor();
});
afterAll(async () => {
  await browser.close();
  await server.end('SIGKILL');
});

test('the command of an empty page fills the page', async () => {
  const empty = [
    ['fleet', 'No agents yet', '.agent-row'],
    ['work', 'No tasks yet', '.card'],
    ['data', 'No documents yet', '.newest-row'],
    ['feed', '', '.change-row'],
  ] as const;
  for (const [name, title, filled] of empty) {
    await page.goto(`${server.url}/console/${name}?user=grace`);
    if (title === '') {
      await page.locator(filled).first().waitFor();
      continue;
    }
    const shown = page.locator('.empty', { hasText: title });
    const command = await shown.locator('code').innerText();
    const [program, ...args] = words(command);
    expect([program, command]).toEqual(['stoa', expect.stringContaining('--user grace')]);
    expect(await stoa([...args, '--data', path('data')])).toMatchObject({ status: 0 });
    await page.locator(filled).first().waitFor();
  }
});

/** A command line as a shell splits it; the commands have no escapes. */
function words(line: string): string[] {
  return Array.from(line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g), ([, a, b, c]) => a ?? b ?? c ?? '');
}

test('a server that is killed is reported, and everything goes on when it is back', async () => {
  await page.goto(`${server.url}/console/data/default?user=grace`);
  await page.locator('.connection.live').waitFor();
  await page.locator('.tree-row', { hasText: 'greeting' }).waitFor();
  await server.end('SIGKILL');
  await page.getByText('No connection, trying again').waitFor();
  // What is on the screen stays, and what is asked for says why it does not come.
  await page.locator('.tree-row', { hasText: 'greeting' }).click();
  await page.locator('.drawer').getByRole('alert').waitFor();
  const port = new URL(server.url).port;
  server = await up(path('data'), ['--port', port]);
  await page.locator('.connection.live').waitFor();
  const grace = new Stoa({ url: server.url, token: server.token, user: 'grace' });
  await grace.data('default').set('after-the-break', 1);
  await page.locator('.tree-row', { hasText: 'after-the-break' }).waitFor();
  await page.locator('.drawer').getByRole('button', { name: 'Try again' }).click();
  await page.locator('.json-string', { hasText: 'hello' }).waitFor();
});
