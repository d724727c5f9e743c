import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import type { Person, SharedConsole } from './shared.js';

/** What the keyboard alone does. */
export function keyTests(shared: () => SharedConsole): void {
  let own: Person;
  let page: Page;

  beforeAll(async () => {
    own = await shared().person('keys-person');
    ({ page } = shared());
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

  test('the keyboard alone goes to every page, opens a record, and acts in a dialog', async () => {
    await shared().show('fleet', own.user);
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

    const { session_id } = await own.stoa.tasks.get(own.demo.finalId);
    const { id } = await own.stoa.tasks.create(session_id, { command: 'Ring the fog bell' });
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
    expect(await own.stoa.tasks.get(id)).toMatchObject({ status: 'cancelled', reason: 'no fog' });
    // The button that opened the dialog is gone: the keyboard goes on from the page.
    await expect.poll(() => page.evaluate('document.activeElement !== document.body')).toBe(true);
  });

  test('j and k move from anywhere in the list, Home and End go to its ends, Tab goes into the panel', async () => {
    await shared().show('fleet', own.user);
    await page.locator('.agent-row').first().waitFor();
    const { keyboard } = page;
    const focused = (): Promise<string> => page.locator('.agent-row:focus .agent-name').innerText();
    await keyboard.press('j');
    const [first, second] = await page.locator('.agent-row .agent-name').allInnerTexts();
    expect(await focused()).toBe(first);
    await keyboard.press('j');
    expect(await focused()).toBe(second);
    await keyboard.press('k');
    expect(await focused()).toBe(first);
    await keyboard.press('End');
    await expect.poll(focused).toBe('crawler-old');
    await keyboard.press('Home');
    await expect.poll(focused).toBe(first);
    await keyboard.press('Enter');
    await page.locator('.drawer').waitFor();
    await keyboard.press('Tab');
    await page.locator('.drawer a:focus').waitFor();
    await keyboard.press('Escape');
    await expect.poll(focused).toBe(first);
  });

  test('l and h go to the next column of the board, and open and close a folder of keys', async () => {
    await shared().show('work', own.user);
    await page.locator('.card').first().waitFor();
    const { keyboard } = page;
    const column = (name: string): Promise<void> =>
      page.locator(`section[aria-label="${name}"] .card:focus`).waitFor();
    await keyboard.press('j');
    await column('Pending');
    await keyboard.press('l');
    await column('Running');
    await keyboard.press('ArrowRight');
    await column('Input required');
    await keyboard.press('h');
    await column('Running');
    await shared().show('data/notes', own.user);
    await page.locator('.tree-row').first().waitFor();
    for (let step = 0; step < 3; step += 1) await keyboard.press('j');
    await page.locator('.tree-row:focus[aria-expanded=false]', { hasText: 'museums/' }).waitFor();
    await keyboard.press('l');
    await page.locator('.tree-row', { hasText: 'lisbon/' }).waitFor();
    await keyboard.press('h');
    await expect.poll(() => page.locator('.tree-row', { hasText: 'lisbon/' }).count()).toBe(0);
  });

  test('? lists the keys, and Esc gives the focus back', async () => {
    await shared().show('fleet', own.user);
    await page.locator('.agent-row').first().waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('?');
    const dialog = page.getByRole('dialog', { name: 'Keys' });
    await dialog.getByText('search everything').waitFor();
    await dialog.getByText('go to Operations').waitFor();
    // A dialog keeps the keys: the list behind it does not move.
    await page.keyboard.press('j');
    await page.keyboard.press('Escape');
    await expect.poll(() => dialog.count()).toBe(0);
    const [first] = await page.locator('.agent-row .agent-name').allInnerTexts();
    expect(await page.locator('.agent-row:focus .agent-name').innerText()).toBe(first);
  });

  test('the search finds everything by name and by word', async () => {
    await shared().show('fleet', own.user);
    await page.locator('.agent-row').first().waitFor();
    await search('translator-ja');
    await page.keyboard.press('Enter');
    await page.getByRole('complementary', { name: 'Agent translator-ja' }).waitFor();
    await search('Sunflower');
    await page.locator('.hits a', { hasText: 'notes/ferries/osaka/beppu' }).click();
    await page.getByRole('complementary', { name: 'Document ferries/osaka/beppu' }).waitFor();
    const { id } = await own.stoa.rooms.create({ name: 'harbour-office' });
    await search('harbour-off');
    await page.locator('.hits a', { hasText: 'room' }).click();
    await expect.poll(() => page.url()).toContain(`/rooms/${id}`);
    await search('metric');
    await page.locator('.hits a', { hasText: 'namespace' }).click();
    await page.locator('.tree-row', { hasText: 'tokens' }).waitFor();
  });
}
