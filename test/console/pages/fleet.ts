import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { Stoa } from '../../../src/client/index.js';
import type { Person, SharedConsole } from './shared.js';

export function fleetTests(shared: () => SharedConsole): void {
  let own: Person;
  let page: Page;

  beforeAll(async () => {
    own = await shared().person('fleet-person');
    ({ page } = shared());
  });

  test('shows what each agent does, and stops, starts and forgets one', async () => {
    await shared().show('fleet', own.user);
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
    const { items } = await own.stoa.agents.list({ name: 'nightly-report' });
    expect(items[0]?.status).toBe('stopping');
  });

  test('forgets an agent that never came', async () => {
    const { agent_id } = await own.stoa.agents.create({ name: 'never-came' });
    await shared().show(`fleet/${agent_id}`, own.user);
    await page.getByRole('button', { name: 'Forget' }).click();
    await page.getByRole('button', { name: 'Forget the agent' }).click();
    await page.getByText('never-came is forgotten.').waitFor();
    expect((await own.stoa.agents.list({ name: 'never-came' })).items).toEqual([]);
  });

  test('starts, hibernates and wakes an agent, and offers only what its state allows', async () => {
    const { agent_id } = await own.stoa.agents.create({ name: 'dozer' });
    await shared().show(`fleet/${agent_id}`, own.user);
    const steps = [
      ['Start', 'provisioning → running', ['Start', 'Forget']],
      ['Hibernate', 'running → hibernating', ['Stop', 'Hibernate', 'Restart', 'Forget']],
      ['Wake', 'hibernating → provisioning', ['Wake', 'Stop', 'Forget']],
      ['Start', 'provisioning → running', ['Start', 'Forget']],
    ] as const;
    for (const [verb, transition, offered] of steps) {
      const [from, to] = transition.split(' → ') as [string, string];
      await page.locator('.drawer .status', { hasText: from }).waitFor();
      expect(await page.locator('.drawer-actions button').allInnerTexts()).toEqual(offered);
      await page.getByRole('button', { name: verb, exact: true }).click();
      await page.locator('.history li').first().getByText(transition).waitFor();
      expect((await own.stoa.agents.get(agent_id)).status).toBe(to);
    }
  });

  test('shows a task at its holder, and not at an agent of another user with the same name', async () => {
    const { url, bob } = shared().running;
    await new Stoa({ url, token: bob }).agents.create({ name: 'twin' });
    await own.stoa.agents.create({ name: 'twin' });
    const claim = await own.as('twin').tasks.claim(own.demo.projectId, { leaseSeconds: 300 });
    claim?.abandon();
    await page.goto(`${url}/console/fleet?all&filter=twin`);
    const rows = page.locator('.agent-row');
    await expect.poll(() => rows.count()).toBe(2);
    const holders = rows.filter({ hasText: claim?.task.command ?? '' });
    await expect.poll(() => holders.count()).toBe(1);
    await holders.getByText(own.user).waitFor();
  });

  test('shows how many agents were present over the last day', async () => {
    await shared().show('fleet', own.user);
    await page.getByRole('button', { name: '24 h' }).click();
    await page.locator('.chart-line[d*="L"]').waitFor();
    expect(new URL(page.url()).searchParams.get('past')).toBe('day');
    await page.locator('.agent-row', { hasText: 'planner' }).click();
    await page.getByRole('link', { name: 'Close' }).click();
    expect(new URL(page.url()).searchParams.get('past')).toBe('day');
  });

  test('says what each agent waits for, and where it runs', async () => {
    const row = page.locator('.agent-row');
    const waits = { watchdog: 'a person', 'scout-quito': 'a task', archivist: 'a wake' };
    for (const [name, wait] of Object.entries(waits)) {
      await shared().show(`fleet?filter=${name}`, own.user);
      await row.getByText(wait).waitFor();
    }
    await shared().show('fleet?filter=scout-osaka', own.user);
    await row.getByText('van-laptop').waitFor();
    await row.getByText('Compare the ferry timetables').waitFor();
    expect(await row.locator('.wait').count()).toBe(0);
  });

  test('rows stay where they are while somebody moves in the list, and are live again after that', async () => {
    const first = await own.stoa.agents.create({ name: 'jump-1' });
    await own.stoa.agents.create({ name: 'jump-2' });
    await shared().show('fleet?filter=jump-', own.user);
    const names = (): Promise<string[]> => page.locator('.agent-row .agent-name').allInnerTexts();
    await expect.poll(names).toEqual(['jump-1', 'jump-2']);
    const row = page.locator('.agent-row', { hasText: 'jump-2' });
    const top = async (): Promise<number | undefined> => (await row.boundingBox())?.y;
    const before = await top();
    await row.hover();
    await own.stoa.agents.create({ name: 'jump-0' });
    await own.stoa.agents.update(first.agent_id, { status: 'error', error_message: 'moved' });
    const seen = page.locator('.agent-row', { hasText: 'moved' });
    await expect
      .poll(async () => {
        for (const x of [400, 401]) await page.mouse.move(x, before ?? 0);
        return seen.count();
      })
      .toBe(1);
    expect(await top()).toBe(before);
    await expect.poll(names).toEqual(['jump-1', 'jump-0', 'jump-2']);
  });

  test('answers a question that waits for a person', async () => {
    await shared().show('fleet', own.user);
    await page.locator('.agent-row', { hasText: 'reader-1' }).getByText('an answer').waitFor();
    await page.getByRole('button', { name: /question waiting/ }).click();
    await page.getByRole('button', { name: 'Answer' }).click();
    await page.getByRole('textbox', { name: 'Answer' }).fill('April counts.');
    await page.getByRole('button', { name: 'Send the answer' }).click();
    await page.getByText('Nobody waits for an answer.').waitFor();
    expect(await own.stoa.tasks.get(own.demo.questionId)).toMatchObject({
      status: 'running',
      answer: 'April counts.',
    });
  });
}
