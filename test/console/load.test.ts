/** Hostile texts, accessibility, many records, and a server that goes away. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { createApp, stopApp } from '../../src/server/app.js';
import { Running } from '../server/running.js';
import { launch, openPage, signInLink } from './browser.js';
import { type Demo, makeDemo } from './demo.js';
import { mainThread } from './processor-time.js';

const hostile = [
  '<img src=x onerror="window.hit=1">',
  '<script>window.hit=2</script>',
  '\u202Egnirts desrever\u202C',
  '"><svg/onload=window.hit=3>',
  '{{constructor.constructor("window.hit=4")()}}',
];
const [agentCount, taskCount, keyCount] = [1_000, 5_000, 10_000];
/** Of processor time, for one task of the main thread. */
const longTaskMsMax = 200;

let running: Running;
let browser: Browser;
let demo: Demo;
let alice: Stoa;
let sessionId: string;

beforeAll(async () => {
  running = await Running.start({ messagingSettings: { rateLimitAllow: ['127.0.0.0/8'] } });
  demo = await makeDemo(running);
  alice = new Stoa({ url: running.url, token: running.alice });
  sessionId = (await alice.tasks.get(demo.finalId)).session_id;
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  await running.stop();
});

async function signedIn(options = {}): Promise<{ page: Page; complaints: string[] }> {
  const opened = await openPage(browser, options);
  await opened.page.goto(await signInLink(running.stoa, running.url, 'alice'));
  await opened.page.locator('.connection.live').waitFor();
  return opened;
}

async function show(page: Page, path: string, ready: string): Promise<void> {
  await page.goto(`${running.url}/console/${path}`);
  await page.locator(ready).first().waitFor();
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface AxeResult {
  violations: { id: string; nodes: { html: string; failureSummary: string }[] }[];
}

async function complaintsOfAxe(page: Page, where: string): Promise<unknown[]> {
  await page.evaluate(axeSource);
  const { violations } = (await page.evaluate('axe.run()')) as AxeResult; // axe declares this result.
  return violations.map(({ id, nodes }) => [
    where,
    id,
    nodes.map(({ html, failureSummary }) => html + failureSummary),
  ]);
}

describe.each([
  { name: 'light', options: { colorScheme: 'light' as const } },
  { name: 'dark, 390 px', options: { colorScheme: 'dark' as const, viewport: { width: 390, height: 844 } } },
])('$name', ({ options }) => {
  test('axe finds nothing on any page', async () => {
    const { page } = await signedIn({ ...options, bypassCSP: true });
    const pages = [
      ['fleet', '.agent-row'],
      [`fleet/${demo.agents.get('planner')}`, '.history li'],
      [`work/${demo.finalId}`, '.node'],
      ['data/notes/museums%2Flisbon%2Fmaat', '.json-line'],
      ['rooms/global', '.message'],
      ['feed', '.change-row'],
      ['operations', '.cards'],
    ] as const;
    for (const [path, ready] of pages) {
      await show(page, path, ready);
      expect(await complaintsOfAxe(page, path)).toEqual([]);
    }
    await page.context().close();
  });

  test('axe finds nothing in dialogs, the search, the editor and the sign-in', async () => {
    const { page } = await signedIn({ ...options, bypassCSP: true });
    await show(page, `work/${demo.finalId}`, '.node');
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    await page.locator('dialog[open]').waitFor();
    expect(await complaintsOfAxe(page, 'a dialog')).toEqual([]);
    await page.keyboard.press('Escape');
    await page.locator('body').press('/');
    await page.getByLabel(/Search agents/).fill('planner');
    await page.locator('.hits a').first().waitFor();
    expect(await complaintsOfAxe(page, 'the search')).toEqual([]);
    await page.keyboard.press('Escape');
    await show(page, 'data/notes/museums%2Flisbon%2Fmaat?edit=1', 'textarea');
    expect(await complaintsOfAxe(page, 'the editor')).toEqual([]);
    await page.evaluate('sessionStorage.clear()');
    await show(page, 'fleet', '.sign-in');
    expect(await complaintsOfAxe(page, 'the sign-in')).toEqual([]);
    await page.context().close();
  });
});

test('hostile texts are shown as text, and run nowhere', async () => {
  const [text = ''] = hostile;
  const { agent_id } = await alice.agents.create({ name: 'hostile', labels: { note: text } });
  await alice.agents.update(agent_id, { status: 'error', error_message: hostile.join(' ') });
  const task = await alice.tasks.create(sessionId, { command: hostile.join('\n'), labels: ['hostile'] });
  const data = alice.data(`<b>${'n'.repeat(20)}`);
  for (const [at, key] of hostile.entries()) await data.set(key, { [key]: hostile[at] ?? '' });
  await data.set('large', 'x'.repeat(1_000_000));
  for (const each of hostile) await alice.room('global').post(each);
  const { page, complaints } = await signedIn();
  await show(page, `fleet/${agent_id}`, '.history li');
  await show(page, `work/${task.id}`, '.timeline li');
  await page.getByText('⟨U+202E⟩').first().waitFor();
  const namespace = encodeURIComponent(data.namespace);
  await show(page, `data/${namespace}/${encodeURIComponent(text)}`, '.json-line');
  await show(page, `data/${namespace}/large`, '.json-line');
  await page.getByRole('button', { name: 'Text' }).click();
  await page.getByText(/The first 100,000 of/).waitFor();
  await show(page, 'rooms/global', '.message');
  await page.getByText('<script>window.hit=2</script>').first().waitFor();
  await show(page, 'feed', '.change-row');
  expect(await page.evaluate('window.hit')).toBeUndefined();
  expect(complaints).toEqual([]);
  await page.context().close();
});

async function scrollThrough(page: Page, list: string): Promise<void> {
  await page.evaluate(`(async () => {
    const list = document.querySelector(${JSON.stringify(list)});
    for (let step = 0; step < 40; step += 1) {
      list.scrollTop = (list.scrollHeight - list.clientHeight) * (step / 39);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  })()`);
}

test('a thousand agents, five thousand tasks and ten thousand keys scroll without a long task', async () => {
  const { commit } = running.stoa;
  expect(commit).toBeDefined();
  for (let from = 0; from < agentCount; from += 250)
    await alice.commit({
      operations: Array.from({ length: 250 }, (_, at) => ({
        op: 'agent.create' as const,
        name: `worker-${from + at}`,
      })),
    });
  for (let from = 0; from < taskCount; from += 500)
    await alice.commit({
      operations: Array.from({ length: 500 }, (_, at) => ({
        op: 'task.create' as const,
        session_id: sessionId,
        command: `Step ${from + at}`,
      })),
    });
  for (let from = 0; from < keyCount; from += 1_000)
    await alice
      .data('many')
      .setMany(
        Object.fromEntries(
          Array.from({ length: 1_000 }, (_, at) => [`part/${(from + at) % 10}/key-${from + at}`, from + at]),
        ),
      );
  const { page } = await signedIn();
  const longest: Record<string, number> = {};
  const views = [
    ['fleet', 'fleet', '.agent-row', '.fleet'],
    ['work', 'work', '.card', '[aria-label="pending"] .virtual'],
    ['data', 'data/many', '.tree-row', '.key-tree .virtual'],
  ] as const;
  for (const [name, path, ready, list] of views) {
    await show(page, path, ready);
    if (name === 'data') {
      await page.getByText('10,000 keys').waitFor();
      await page.locator('.tree-row').first().click();
      await page.locator('.tree-row', { hasText: '0/' }).first().click();
    }
    if (name === 'work') await page.getByText(/5,\d\d\d tasks/).waitFor();
    if (name === 'fleet') await page.getByText(/1,\d\d\d agents/).waitFor();
    await page.waitForTimeout(500);
    longest[name] = (await mainThread(browser, page, () => scrollThrough(page, list))).longestMs;
    if (name !== 'fleet') continue;
    // A hundred changes a second for two seconds.
    const busy = await mainThread(browser, page, async () => {
      for (let round = 0; round < 20; round += 1) {
        await Promise.all(Array.from({ length: 10 }, (_, at) => alice.data('busy').set(`key-${at}`, round)));
        await page.waitForTimeout(80);
      }
    });
    longest['changes'] = busy.longestMs;
  }
  console.log(`the longest tasks in ms of processor time: ${JSON.stringify(longest)}`);
  for (const milliseconds of Object.values(longest)) expect(milliseconds).toBeLessThan(longTaskMsMax);
  await page.context().close();
});

test('a server that is gone is reported, and everything goes on when it is back', async () => {
  const { page } = await signedIn();
  await show(page, 'data/notes', '.tree-row');
  const port = new URL(running.url).port;
  await stopApp(running.app, 0);
  await page.getByText('No connection, trying again').waitFor();
  await alice.tasks.get(demo.finalId).catch(() => undefined);
  const again = createApp(running.stoa);
  await again.listen({ port: Number(port), host: '127.0.0.1' });
  await page.locator('.connection.live').waitFor();
  await alice.data('notes').set('after-the-break', 1);
  await page.locator('.tree-row', { hasText: 'after-the-break' }).waitFor();
  await stopApp(again, 1);
});
