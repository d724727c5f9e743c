import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { AgentKeys, Stoa } from '../../../src/client/index.js';
import type { Person, SharedConsole } from './shared.js';

export function roomsTests(shared: () => SharedConsole): void {
  let own: Person;
  let page: Page;

  beforeAll(async () => {
    own = await shared().person('rooms-person');
    ({ page } = shared());
  });

  test('posts as the signed-in person, searches, and shows who is proven', async () => {
    await shared().show('rooms/global', own.user);
    await page.getByRole('textbox', { name: 'Message', exact: true }).fill('Is anybody in Quito?');
    await page.getByRole('button', { name: 'Post' }).click();
    await page.locator('.message', { hasText: 'Is anybody in Quito?' }).getByText('server-signed').waitFor();
    await page.getByLabel('Search messages').fill('Quito');
    await page.getByLabel('Search messages').press('Enter');
    await page.locator('.message', { hasText: 'Is anybody in Quito?' }).waitFor();
  });

  test('shows a thread, checks the signatures in it, and replies', async () => {
    const wanderer = new Stoa({ url: shared().running.url }).agent(await AgentKeys.generate());
    await wanderer.register({ name: 'wanderer' });
    const { id } = await wanderer.room('global').post('Who signs here?');
    await shared().show(`rooms/global/${id}`, own.user);
    const thread = page.getByRole('complementary', { name: 'Thread' });
    const first = thread.locator('.message', { hasText: 'Who signs here?' });
    await first.getByText('signature verified').waitFor();
    await first.getByText('outside').waitFor();
    await thread.getByRole('button', { name: 'Reply' }).click();
    await page.locator('dialog').getByLabel('Message').fill('The console does.');
    await page.getByRole('button', { name: 'Post the reply' }).click();
    await thread.locator('.message', { hasText: 'The console does.' }).getByText('server-signed').waitFor();
  });

  test('opens a private room with its key, and reads earlier messages', async () => {
    const key = 'correct horse battery';
    const { id } = await own.stoa.rooms.create({ name: 'vault', key });
    const agents = Array.from({ length: 11 }, (_, at) => own.as(`speaker-${at}`));
    for (let at = 0; at < 101; at += 1) await agents[at % agents.length]?.room(id, key).post(`line ${at}`);
    const other = await shared().open(own.user);
    await other.goto(`${shared().running.url}/console/rooms`);
    await other.getByRole('navigation', { name: 'Rooms' }).getByText('vault').click();
    await other.getByText('This room needs its key').waitFor();
    expect(await other.locator('.post').count()).toBe(0);
    await other.getByRole('button', { name: 'Enter the key' }).click();
    await other.getByRole('textbox', { name: 'Key' }).fill(key);
    await other.getByRole('button', { name: 'Open the room' }).click();
    const last = other.locator('.message', { hasText: 'line 100' });
    await last.waitFor();
    expect(await other.locator('.message', { hasText: /line 0$/ }).count()).toBe(0);
    await other.getByRole('button', { name: 'Earlier messages' }).click();
    await other.locator('.message', { hasText: /line 0$/ }).waitFor();
    expect(await other.getByRole('button', { name: 'Earlier messages' }).count()).toBe(0);
    await last.getByRole('link', { name: 'Thread' }).click();
    await other.locator('.drawer .message', { hasText: 'line 100' }).waitFor();
    await other.context().close();
    // The operator may enter every room.
    await shared().show(`rooms/${id}`, own.user);
    await page.locator('.message', { hasText: 'line 100' }).waitFor();
  });

  test('shows direct messages as they are stored: encrypted', async () => {
    const sender = new Stoa({ url: shared().running.url }).agent(await AgentKeys.generate());
    await sender.register({ name: 'outsider' });
    const agent = own.as('scout-quito');
    const { id } = await agent.room('plans').post('I am here.');
    const { from } = await agent.room('plans').message(id);
    await sender.direct.send(from, 'for your eyes only');
    await shared().show('rooms/direct', own.user);
    await page.getByLabel('Direct messages to').selectOption('scout-quito');
    const stored = page.locator('.message', { hasText: 'outsider' });
    await stored.getByText('not acknowledged yet').waitFor();
    expect(await stored.locator('.message-body').innerText()).toMatch(/^[\w+/=]{60,}$/);
    expect(await page.locator('body').innerText()).not.toContain('for your eyes only');
  });

  test('lists blocked addresses, and unblocks one', async () => {
    const { port } = shared().running.stoa.messaging;
    await port.block({ address: '203.0.113.7', reason: 'noise', expiresAtMs: Date.now() + 60_000 });
    await shared().show('rooms/blocked', own.user);
    await page
      .locator('.message', { hasText: '203.0.113.7' })
      .getByRole('button', { name: 'Unblock' })
      .click();
    await page.getByText('No address is blocked').waitFor();
  });
}
