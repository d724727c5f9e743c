import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import type { Person, SharedConsole } from './shared.js';

export function workTests(shared: () => SharedConsole): void {
  let own: Person;
  let page: Page;

  beforeAll(async () => {
    own = await shared().person('work-person');
    ({ page } = shared());
  });

  test('takes a task from its holder, and cancels it', async () => {
    await shared().show(`work/${own.demo.runningId}`, own.user);
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
    expect(await own.stoa.tasks.get(own.demo.runningId)).toMatchObject({
      status: 'cancelled',
      reason: 'not needed',
    });
  });

  test('retries a failed task with the tasks that were cancelled because of it', async () => {
    const [failed] = (await own.stoa.tasks.list({ status: 'failed' })).items;
    const session = failed?.session_id ?? '';
    const first = await own.stoa.tasks.create(session, { command: 'Dig the well' });
    const second = await own.stoa.tasks.create(session, { command: 'Draw water', depends_on: [first.id] });
    await own.stoa.tasks.cancel(first.id);
    await shared().show(`work/${first.id}`, own.user);
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.getByText(/1 task that depend/).waitFor();
    await page.getByLabel('Reason').fill('there is a spade');
    await page.locator('dialog').getByRole('button', { name: 'Retry' }).click();
    await page.getByText('The task is in the queue again.').waitFor();
    await page.locator('.timeline').getByText('retried: back in the queue').waitFor();
    for (const id of [first.id, second.id])
      expect(await own.stoa.tasks.get(id)).toMatchObject({ status: 'pending', reason: 'there is a spade' });
  });

  test('says on each card what the task waits for, asks, or how it ended', async () => {
    const { session_id } = await own.stoa.tasks.get(own.demo.endedId);
    const create = async (command: string, depends_on: string[] = []): Promise<string> =>
      (await own.stoa.tasks.create(session_id, { command, depends_on })).id;
    const before = [await create('Mix the mortar'), await create('Cut the stones')];
    await create('Build the quay', before);
    await shared().show('work', own.user);
    const card = (text: string) => page.locator('.card', { hasText: text });
    await card('Build the quay').getByText('after Mix the mortar and 1 more').waitFor();
    await card('Read the 2026 budget').getByText('Two versions of the budget disagree').waitFor();
    await card('Draft the reply').getByText('The office has closed its mailbox.').waitFor();
    await card('Draw the map').getByText('The printer has a newer map.').waitFor();
    await card('Build the quay').click();
    await page.locator('.drawer .fields').getByRole('link', { name: 'Cut the stones' }).waitFor();
    await shared().show(`work/${own.demo.questionId}`, own.user);
    await page.locator('.fields').getByRole('link', { name: 'reader-1' }).click();
    await page.getByRole('complementary', { name: 'Agent reader-1' }).waitFor();
  });

  test('shows the lease of a held task on its card and in its panel', async () => {
    const claim = await own.as('reader-3').tasks.claim(own.demo.projectId, { leaseSeconds: 300 });
    claim?.abandon();
    await shared().show(`work/${claim?.task.id}`, own.user);
    await page.locator('.card.chosen .task-lease').waitFor();
    await page.locator('.drawer .fields .task-lease', { hasText: /^(5m|4m)/ }).waitFor();
  });

  test('cards stay where they are while somebody moves on the board, and are live again after that', async () => {
    const { session_id } = await own.stoa.tasks.get(own.demo.endedId);
    const create = async (command: string): Promise<string> =>
      (await own.stoa.tasks.create(session_id, { command })).id;
    const [first] = [await create('Paint buoy 1'), await create('Paint buoy 2')];
    await shared().show('work?filter=paint%20buoy', own.user);
    const titles = (column: string): Promise<string[]> =>
      page.locator(`[aria-label="${column}"] .card-title`).allInnerTexts();
    await expect.poll(() => titles('Pending')).toEqual(['Paint buoy 1', 'Paint buoy 2']);
    const second = page.locator('.card', { hasText: 'Paint buoy 2' });
    const before = await second.boundingBox();
    await second.hover();
    await own.stoa.tasks.cancel(first, { reason: 'sunk' });
    const cancelled = page.locator('.card.cancelled', { hasText: 'sunk' });
    await expect
      .poll(async () => {
        for (const aside of [5, 6]) await second.hover({ position: { x: aside, y: aside } });
        return cancelled.count();
      })
      .toBe(1);
    expect(await second.boundingBox()).toEqual(before);
    expect(await titles('Cancelled')).toEqual([]);
    await expect.poll(() => titles('Cancelled')).toEqual(['Paint buoy 1']);
    expect(await titles('Pending')).toEqual(['Paint buoy 2']);
  });
}
