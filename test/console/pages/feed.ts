import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import type { Person, SharedConsole } from './shared.js';

export function feedTests(shared: () => SharedConsole): void {
  let own: Person;
  let page: Page;

  beforeAll(async () => {
    own = await shared().person('feed-person');
    ({ page } = shared());
  });

  test('shows a change at once, pauses, filters, and shares a position as an address', async () => {
    await shared().show('feed', own.user);
    await own.stoa.data('notes').set('live', 1);
    await page.locator('.change-row', { hasText: 'notes/live' }).first().waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await own.stoa.data('notes').set('later', 1);
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

  test('shows new identities of others only to a person who asks for them', async () => {
    await own.stoa.data('notes').set('after', 1);
    await shared().show('feed', own.user);
    await page.locator('.change-row', { hasText: 'notes/after' }).first().waitFor();
    const registered = page.locator('.change-row', { hasText: 'identity.registered' });
    expect(await registered.count()).toBe(0);
    for (const domain of ['All domains', 'messaging']) {
      await page.getByLabel('Domain').selectOption(domain);
      await registered.first().waitFor();
    }
    await page.getByLabel('Domain').selectOption('No new identities');
    await page.getByLabel('Filter changes').fill('registered');
    await registered.first().waitFor();
  });
}
