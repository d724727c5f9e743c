import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import type { Person, SharedConsole } from './shared.js';

export function dataTests(shared: () => SharedConsole): void {
  let own: Person;
  let page: Page;

  beforeAll(async () => {
    own = await shared().person('data-person');
    ({ page } = shared());
  });

  test('edits a document, and shows both versions when somebody else was faster', async () => {
    await shared().show('data/notes/museums%2Flisbon%2Fmaat', own.user);
    await page.getByRole('button', { name: 'Edit' }).click();
    await own.stoa.data('notes').set('museums/lisbon/maat', { open: 'theirs' });
    await page.getByLabel('Value as JSON').fill('{"open": "mine"}');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('.conflict').getByText('theirs').waitFor();
    await page.getByRole('button', { name: 'Overwrite with mine' }).click();
    await page.locator('.json-string', { hasText: 'mine' }).waitFor();
    expect(await own.stoa.data('notes').getEntry('museums/lisbon/maat')).toMatchObject({
      value: { open: 'mine' },
      version: 3,
    });
  });

  test('shows who read a document and how often, and copies it as a request that works', async () => {
    const as = (agent: string) => own.as(agent).data('notes');
    await as('writer').set('tides', { high: '06:12' });
    await shared().show('data/notes/tides', own.user);
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
    const environment = { ...process.env, STOA_TOKEN: shared().running.operator };
    const { stdout } = await promisify(execFile)('bash', ['-c', curl], { env: environment });
    expect(JSON.parse(stdout)).toMatchObject({ value: { high: '06:40' } });
    await page.getByRole('button', { name: 'Copy as SDK call' }).click();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(
      'const value = await stoa.data("notes").get("tides");',
    );
  });

  test('shows the documents that were written last, and where each is', async () => {
    await shared().show('data', own.user);
    await own.as('planner').data('plans').set('week/48', { goal: 'Winter' });
    await page.locator('.newest-row', { hasText: 'plans/week/48' }).getByText('planner').waitFor();
    await page.locator('.newest-row', { hasText: 'plans/week/48' }).click();
    await page.getByRole('complementary', { name: 'Document week/48' }).waitFor();
  });

  test('Esc leaves the field first: what was typed is not lost', async () => {
    await own.stoa.data('notes').set('draft', 'old');
    await shared().show('data/notes/draft?edit=1', own.user);
    await page.getByLabel('Value as JSON').fill('"half a thought"');
    await page.keyboard.press('Escape');
    expect(await page.getByLabel('Value as JSON').inputValue()).toBe('"half a thought"');
    await page.keyboard.press('Escape');
    await expect.poll(() => page.locator('.drawer').count()).toBe(0);
  });

  test('creates a document with a time to live, copies it as a command, and deletes it', async () => {
    await shared().show('data/notes', own.user);
    await page.getByRole('button', { name: 'New document' }).click();
    await page.getByLabel('Key', { exact: true }).fill('from/the console');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByLabel('Value as JSON').fill('[1, 2]');
    await page.getByLabel(/Expires in seconds/).fill('3600');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    expect((await own.stoa.data('notes').getEntry('from/the console'))?.expiresAt).not.toBeNull();
    await page.getByRole('button', { name: 'Copy as CLI command' }).click();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(
      `stoa data get 'from/the console' -n notes --user ${own.user}`,
    );
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.locator('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('The document is deleted.').waitFor();
    expect(await own.stoa.data('notes').getEntry('from/the console')).toBeUndefined();
  });
}
