import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import type { Person, SharedConsole } from './shared.js';

export function everywhereTests(shared: () => SharedConsole): void {
  let own: Person;
  let page: Page;

  beforeAll(async () => {
    own = await shared().person('everywhere-person');
    ({ page } = shared());
  });

  test('nothing moves for a person who asked for reduced motion', async () => {
    const still = await shared().open(undefined, { reducedMotion: 'reduce' });
    await shared().show('fleet', own.user, still);
    await still.locator('.lease-bar span').first().waitFor({ state: 'attached' });
    const moving = `[...document.querySelectorAll('*')].filter((element) => {
      const { transitionDuration, animationName } = getComputedStyle(element);
      return animationName !== 'none' || transitionDuration.split(',').some((text) => parseFloat(text) > 0);
    }).length`;
    expect(await still.evaluate(moving)).toBe(0);
    await shared().show('fleet', own.user);
    await page.locator('.lease-bar span').first().waitFor({ state: 'attached' });
    expect(await page.evaluate(moving)).toBeGreaterThan(0);
    await still.context().close();
  });

  test('links to records of another user show nothing of them', async () => {
    const carol = await shared().open('carol');
    await carol.getByText('No agents yet').waitFor();
    await own.stoa.data('notes').set('private', { secret: 'kept between us' });
    const { items: rooms } = await own.stoa.rooms.list({ public: false });
    const harbour = rooms.find(({ name }) => name === 'harbour')?.id ?? '';
    const { position, items } = await own.stoa.changes.read({ back: 10 });
    const links = [
      [`fleet/${own.demo.agents.get('nightly-report')}`, 'This agent does not exist'],
      [`work/${own.demo.questionId}`, 'This task does not exist'],
      ['data/notes/private', 'This document does not exist'],
      [`rooms/${harbour}`, 'This room does not exist'],
      [`rooms/${harbour}/${own.demo.threadId}`, 'This message does not exist'],
      [`rooms/direct?inbox=${own.demo.agents.get('nightly-report')}`, 'No direct messages'],
      [`feed?position=${position}&at=${items.at(-1)?.seq}`, 'The change of this link is not among'],
    ] as const;
    for (const [path, sentence] of links) {
      // The parameter with which an operator chooses a user changes nothing for carol.
      await shared().show(path, own.user, carol);
      await carol.getByText(sentence).first().waitFor();
      expect(await carol.locator('body').innerText()).not.toMatch(
        /nightly-report|2026 budget|two versions|kept between us|notes\/private/,
      );
    }
    await carol.context().close();
  });

  test('the search finds a document by its words, while the last one is still typed', async () => {
    await own.stoa.data('notes').set('lamps', { text: 'The lighthouse keeper deployed a kaleidoscope.' });
    await shared().show('fleet', own.user);
    await page.locator('body').press('/');
    for (const words of ['keeper kaleid', 'lighthouse deploys', '"a kaleidoscope"', 'LIGHTH']) {
      await page.getByLabel(/Search agents/).fill(words);
      await page.locator('.hits', { hasText: 'notes/lamps' }).waitFor();
      await page.getByLabel(/Search agents/).fill('');
      await page.getByText('By name: agents').waitFor();
    }
    await page.keyboard.press('Escape');
  });

  test('two browsers see each other’s changes', async () => {
    const other = await shared().open(own.user);
    await other.goto(`${shared().running.url}/console/data/notes`);
    await other.locator('.connection.live').waitFor();
    await shared().show('data/notes', own.user);
    await page.getByRole('button', { name: 'New document' }).click();
    await page.getByLabel('Key', { exact: true }).fill('seen-by-both');
    await page.getByRole('button', { name: 'Create' }).click();
    await other.locator('.tree-row', { hasText: 'seen-by-both' }).waitFor();
    await other.context().close();
  });
}
