import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { AgentKeys, Stoa } from '../../src/client/index.js';
import { loadConfig } from '../../src/core/settings/config.js';
import { Running } from '../server/running.js';
import { type Opened, launch, openPage, signInLink } from './browser.js';
import { type Demo, makeDemo } from './demo/demo.js';

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

  test('forgets an agent that never came', async () => {
    const { agent_id } = await alice.agents.create({ name: 'never-came' });
    await show(`fleet/${agent_id}`);
    await page.getByRole('button', { name: 'Forget' }).click();
    await page.getByRole('button', { name: 'Forget the agent' }).click();
    await page.getByText('never-came is forgotten.').waitFor();
    expect((await alice.agents.list({ name: 'never-came' })).items).toEqual([]);
  });

  test('shows a task at its holder, and not at an agent of another user with the same name', async () => {
    const bob = new Stoa({ url: running.url, token: running.bob });
    await bob.agents.create({ name: 'scout-lisbon' });
    await page.goto(`${running.url}/console/fleet?all&filter=scout-lisbon`);
    const rows = page.locator('.agent-row');
    await expect.poll(() => rows.count()).toBe(2);
    const holders = rows.filter({ hasText: 'Collect opening hours of the museums in Lisbon' });
    await expect.poll(() => holders.count()).toBe(1);
    await holders.getByText('alice').waitFor();
  });

  test('shows how many agents were present over the last day', async () => {
    await show('fleet');
    await page.getByRole('button', { name: '24 h' }).click();
    await page.locator('.chart-line[d*="L"]').waitFor();
    expect(new URL(page.url()).searchParams.get('past')).toBe('day');
    await page.locator('.agent-row', { hasText: 'planner' }).click();
    await page.getByRole('link', { name: 'Close' }).click();
    expect(new URL(page.url()).searchParams.get('past')).toBe('day');
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
    await page.locator('.timeline').getByText('posted in global').waitFor();
    await page.getByRole('img', { name: /^Timeline: .*held \(scout-lisbon\)/ }).waitFor();
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

  test('retries a failed task with the tasks that were cancelled because of it', async () => {
    const [failed] = (await alice.tasks.list({ status: 'failed' })).items;
    const session = failed?.session_id ?? '';
    const first = await alice.tasks.create(session, { command: 'Dig the well' });
    const second = await alice.tasks.create(session, { command: 'Draw water', depends_on: [first.id] });
    await alice.tasks.cancel(first.id);
    await show(`work/${first.id}`);
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.getByText(/1 task that depend/).waitFor();
    await page.getByLabel('Reason').fill('there is a spade');
    await page.locator('dialog').getByRole('button', { name: 'Retry' }).click();
    await page.getByText('The task is in the queue again.').waitFor();
    await page.locator('.timeline').getByText('retried: back in the queue').waitFor();
    for (const id of [first.id, second.id])
      expect(await alice.tasks.get(id)).toMatchObject({ status: 'pending', reason: 'there is a spade' });
  });

  test('shows the lease of a held task on its card and in its panel', async () => {
    const claim = await new Stoa({ url: running.url, token: running.alice, agent: 'reader-3' }).tasks.claim(
      demo.projectId,
      { leaseSeconds: 300 },
    );
    claim?.abandon();
    await show(`work/${claim?.task.id}`);
    await page.locator('.card.chosen .task-lease').waitFor();
    await page.locator('.drawer .fields .task-lease', { hasText: /^(5m|4m)/ }).waitFor();
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

  test('shows who read a document and how often, and copies it as a request that works', async () => {
    const as = (agent: string) => new Stoa({ url: running.url, token: running.alice, agent }).data('notes');
    await as('writer').set('tides', { high: '06:12' });
    await show('data/notes/tides');
    await page.getByText('never by an agent').waitFor();
    for (const reader of ['critic', 'planner']) await as(reader).get('tides');
    await expect
      .poll(async () => {
        await page.reload();
        return page.locator('.document-facts').innerText();
      })
      .toMatch(/2 times by agents, last now by planner/);
    await as('writer').set('tides', { high: '06:40' });
    await page.getByText('2 times by agents, not since the last write').waitFor();
    await page.getByRole('button', { name: 'Copy as curl' }).click();
    const curl = String(await page.evaluate('navigator.clipboard.readText()'));
    const environment = { ...process.env, STOA_TOKEN: running.operator };
    const { stdout } = await promisify(execFile)('bash', ['-c', curl], { env: environment });
    expect(JSON.parse(stdout)).toMatchObject({ value: { high: '06:40' } });
    await page.getByRole('button', { name: 'Copy as SDK call' }).click();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(
      'const value = await stoa.data("notes").get("tides");',
    );
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
      "stoa data get 'from/the console' -n notes --user alice",
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

  test('shows a thread, checks the signatures in it, and replies', async () => {
    const wanderer = new Stoa({ url: running.url }).agent(await AgentKeys.generate());
    await wanderer.register({ name: 'wanderer' });
    const { id } = await wanderer.room('global').post('Who signs here?');
    await show(`rooms/global/${id}`);
    const thread = page.getByRole('complementary', { name: 'Thread' });
    const first = thread.locator('.message', { hasText: 'Who signs here?' });
    await first.getByText('signature verified').waitFor();
    await first.getByText('outside').waitFor();
    await thread.getByRole('button', { name: 'Reply' }).click();
    await page.locator('dialog').getByLabel('Message').fill('The console does.');
    await page.getByRole('button', { name: 'Post the reply' }).click();
    await thread
      .locator('.message', { hasText: 'The console does.' })
      .getByText('signed by the server')
      .waitFor();
  });

  test('opens a private room with its key, and reads earlier messages', async () => {
    const key = 'correct horse battery';
    const { id } = await alice.rooms.create({ name: 'vault', key });
    const agents = Array.from(
      { length: 11 },
      (_, at) => new Stoa({ url: running.url, token: running.alice, agent: `speaker-${at}` }),
    );
    for (let at = 0; at < 101; at += 1) await agents[at % agents.length]?.room(id, key).post(`line ${at}`);
    const { page: own } = await openPage(browser);
    await own.goto(await signInLink(running.stoa, running.url, 'alice'));
    await own.locator('.connection.live').waitFor();
    await own.goto(`${running.url}/console/rooms`);
    await own.getByRole('navigation', { name: 'Rooms' }).getByText('vault').click();
    await own.getByText('This room needs its key').waitFor();
    expect(await own.locator('.post').count()).toBe(0);
    await own.getByRole('button', { name: 'Enter the key' }).click();
    await own.getByRole('textbox', { name: 'Key' }).fill(key);
    await own.getByRole('button', { name: 'Open the room' }).click();
    const last = own.locator('.message', { hasText: 'line 100' });
    await last.waitFor();
    expect(await own.locator('.message', { hasText: /line 0$/ }).count()).toBe(0);
    await own.getByRole('button', { name: 'Earlier messages' }).click();
    await own.locator('.message', { hasText: /line 0$/ }).waitFor();
    expect(await own.getByRole('button', { name: 'Earlier messages' }).count()).toBe(0);
    await last.getByRole('link', { name: 'Thread' }).click();
    await own.locator('.drawer .message', { hasText: 'line 100' }).waitFor();
    await own.context().close();
    // The operator may enter every room.
    await show(`rooms/${id}`);
    await page.locator('.message', { hasText: 'line 100' }).waitFor();
  });

  test('shows direct messages as they are stored: encrypted', async () => {
    const sender = new Stoa({ url: running.url }).agent(await AgentKeys.generate());
    await sender.register({ name: 'outsider' });
    const agent = new Stoa({ url: running.url, token: running.alice, agent: 'scout-quito' });
    const { id } = await agent.room('plans').post('I am here.');
    const { from } = await agent.room('plans').message(id);
    await sender.direct.send(from, 'for your eyes only');
    await show('rooms/direct');
    await page.getByLabel('Direct messages to').selectOption('scout-quito');
    const stored = page.locator('.message', { hasText: 'outsider' });
    await stored.getByText('not acknowledged yet').waitFor();
    expect(await stored.locator('.message-body').innerText()).toMatch(/^[\w+/=]{60,}$/);
    expect(await page.locator('body').innerText()).not.toContain('for your eyes only');
  });

  test('lists blocked addresses, and unblocks one', async () => {
    const { port } = running.stoa.messaging;
    await port.block({ address: '203.0.113.7', reason: 'noise', expiresAtMs: Date.now() + 60_000 });
    await show('rooms/blocked');
    await page
      .locator('.message', { hasText: '203.0.113.7' })
      .getByRole('button', { name: 'Unblock' })
      .click();
    await page.getByText('No address is blocked').waitFor();
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

/** Presses Tab until an element is focused. */
async function tabTo(selector: string): Promise<void> {
  const isThere = `document.activeElement.matches(${JSON.stringify(selector)})`;
  for (let step = 0; step < 60; step += 1) {
    if ((await page.evaluate(isThere)) === true) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab does not reach ${selector}.`);
}

/** Typed at once: no letter is lost while the dialog opens. */
async function search(words: string): Promise<void> {
  await page.keyboard.type(`/${words}`);
  expect(await page.locator('.search-words').inputValue()).toBe(words);
  await page.locator('.hits a').first().waitFor();
}

describe('everywhere', () => {
  test('the keyboard alone goes to every page, opens a record, and acts in a dialog', async () => {
    await show('fleet');
    const { keyboard } = page;
    for (const name of ['Work', 'Data', 'Rooms', 'Feed', 'Operations', 'Fleet']) {
      await keyboard.press('g');
      await keyboard.press(name === 'Feed' ? 'e' : (name[0] ?? '').toLowerCase());
      await page.getByRole('heading', { name, level: 1 }).waitFor();
      expect(await page.evaluate('document.activeElement.id')).toBe('page');
    }
    await tabTo('.virtual.fleet');
    await keyboard.press('ArrowDown');
    await keyboard.press('ArrowDown');
    await page.locator('.agent-row:focus').waitFor();
    await keyboard.press('Enter');
    await page.getByRole('complementary', { name: /^Agent / }).waitFor();
    await keyboard.press('Escape');
    await expect.poll(() => page.locator('.drawer').count()).toBe(0);

    const { session_id } = await alice.tasks.get(demo.finalId);
    const { id } = await alice.tasks.create(session_id, { command: 'Ring the fog bell' });
    await search('fog bell');
    await keyboard.press('Enter');
    await page.getByRole('complementary', { name: 'Task' }).waitFor();
    await tabTo('.drawer-actions button');
    await keyboard.press('Enter');
    await page.locator('dialog input:focus').waitFor();
    await keyboard.press('Escape');
    await page.locator('.drawer-actions button:focus', { hasText: 'Cancel' }).waitFor();
    await keyboard.press('Enter');
    await page.locator('dialog input:focus').waitFor();
    await keyboard.type('no fog');
    await keyboard.press('Enter');
    await expect.poll(() => page.locator('dialog[open]').count()).toBe(0);
    expect(await alice.tasks.get(id)).toMatchObject({ status: 'cancelled', reason: 'no fog' });
    // The button that opened the dialog is gone: the keyboard goes on from the page.
    await expect.poll(() => page.evaluate('document.activeElement !== document.body')).toBe(true);
  });

  test('nothing moves for a person who asked for reduced motion', async () => {
    const still = await openPage(browser, { reducedMotion: 'reduce' });
    await still.page.goto(await signInLink(running.stoa, running.url));
    await still.page.locator('.connection.live').waitFor();
    await show('fleet', still.page);
    await still.page.locator('.lease-bar span').first().waitFor({ state: 'attached' });
    const moving = `[...document.querySelectorAll('*')].filter((element) => {
      const { transitionDuration, animationName } = getComputedStyle(element);
      return animationName !== 'none' || transitionDuration.split(',').some((text) => parseFloat(text) > 0);
    }).length`;
    expect(await still.page.evaluate(moving)).toBe(0);
    await show('fleet');
    await page.locator('.lease-bar span').first().waitFor({ state: 'attached' });
    expect(await page.evaluate(moving)).toBeGreaterThan(0);
    await still.page.context().close();
  });

  test('the search finds everything by name and by word', async () => {
    await show('fleet');
    await page.locator('.agent-row').first().waitFor();
    await search('translator-ja');
    await page.keyboard.press('Enter');
    await page.getByRole('complementary', { name: 'Agent translator-ja' }).waitFor();
    await search('Sunflower');
    await page.locator('.hits a', { hasText: 'notes/ferries/osaka/beppu' }).click();
    await page.getByRole('complementary', { name: 'Document ferries/osaka/beppu' }).waitFor();
    const { id } = await alice.rooms.create({ name: 'harbour-office' });
    await search('harbour-off');
    await page.locator('.hits a', { hasText: 'room' }).click();
    await expect.poll(() => page.url()).toContain(`/rooms/${id}`);
    await search('metric');
    await page.locator('.hits a', { hasText: 'namespace' }).click();
    await page.locator('.tree-row', { hasText: 'tokens' }).waitFor();
  });

  test('links to records of another user show nothing of them', async () => {
    const carol = await openPage(browser);
    await carol.page.goto(await signInLink(running.stoa, running.url, 'carol'));
    await carol.page.getByText('No agents yet').waitFor();
    await alice.data('notes').set('private', { secret: 'kept between us' });
    const { items: rooms } = await alice.rooms.list({ public: false });
    const harbour = rooms.find(({ name }) => name === 'harbour')?.id ?? '';
    const { position, items } = await alice.changes.read({ back: 10 });
    const links = [
      [`fleet/${demo.agents.get('planner')}`, 'This agent does not exist'],
      [`work/${demo.questionId}`, 'This task does not exist'],
      ['data/notes/private', 'This document does not exist'],
      [`rooms/${harbour}`, 'This room does not exist'],
      [`rooms/${harbour}/${demo.threadId}`, 'This message does not exist'],
      [`rooms/direct?inbox=${demo.agents.get('planner')}`, 'No direct messages'],
      [`feed?position=${position}&at=${items.at(-1)?.seq}`, 'The change of this link is not among'],
    ] as const;
    for (const [path, sentence] of links) {
      // The parameter with which an operator chooses a user changes nothing for carol.
      await show(path, carol.page);
      await carol.page.getByText(sentence).first().waitFor();
      expect(await carol.page.locator('body').innerText()).not.toMatch(
        /planner|2026 budget|two versions|kept between us|notes\/private/,
      );
    }
    await carol.page.context().close();
  });

  test('two browsers see each other’s changes', async () => {
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
    await other.page.context().close();
  });
});
