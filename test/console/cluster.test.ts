/** The console on PostgreSQL and Redis with three servers, also behind a balancer. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { operatorCaller } from '../../src/core/caller.js';
import { startBalancer } from '../cluster/balancer.js';
import { Running } from '../server/running.js';
import { sharedHome } from '../servers/shared.js';
import { launch, openPage, signInLink } from './browser.js';

let servers: Running[];
let browser: Browser;

beforeAll(async () => {
  const { options } = await sharedHome();
  servers = [];
  for (let at = 0; at < 3; at += 1) servers.push(await Running.start(options));
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  await Promise.all(servers.map((server) => server.stop()));
});

test('a link of one server signs in on another, and the session holds on a third', async () => {
  const [first, second, third] = servers as [Running, Running, Running];
  const { page } = await openPage(browser);
  const link = await signInLink(first.stoa, second.url);
  await page.goto(link);
  await page.locator('.connection.live').waitFor();
  const token = String(await page.evaluate("sessionStorage.getItem('stoa.session')"));
  expect((await third.ask('GET', '/v1/status', { as: token })).status).toBe(200);
  const again = { body: { code: link.split('=')[1] } };
  expect((await third.ask('POST', '/v1/console/session', again)).status).toBe(401);
  // A revocation through one server ends the session on all.
  const { items } = await first.stoa.identity.listTokens(operatorCaller(), 'default', {});
  const session = items.find(({ name }) => name === 'Console session');
  await first.stoa.identity.revokeTokens(operatorCaller(), 'default', session?.token_id);
  await expect.poll(async () => (await third.ask('GET', '/v1/status', { as: token })).status).toBe(401);
  await page.getByText('Or paste a token').waitFor();
});

test('a change through one server appears on another, and the servers are listed', async () => {
  const [first, second] = servers as [Running, Running, Running];
  const { page } = await openPage(browser);
  await page.goto(await signInLink(second.stoa, second.url));
  await page.locator('.connection.live').waitFor();
  await page.goto(`${second.url}/console/data/notes?user=alice`);
  await page.locator('.connection.live').waitFor();
  await new Stoa({ url: first.url, token: first.alice }).data('notes').set('over/there', { from: 'first' });
  await page.locator('.tree-row', { hasText: 'over/there' }).click();
  await page.locator('.json-string', { hasText: 'first' }).waitFor();
  await page.goto(`${second.url}/console/feed?user=alice`);
  await page.locator('.change-row', { hasText: 'notes/over/there' }).first().waitFor();
  await page.goto(`${second.url}/console/operations`);
  await expect
    .poll(() => page.getByRole('region', { name: 'Servers' }).getByRole('row').count())
    .toBeGreaterThanOrEqual(2);
});

test('behind a balancer the console survives the end of the server that it follows', async () => {
  const balancer = await startBalancer(
    'haproxy',
    servers.map(({ port }) => port),
  );
  const { page } = await openPage(browser);
  try {
    await page.goto(await signInLink(servers[0]?.stoa as Running['stoa'], balancer.url, 'alice'));
    await page.locator('.connection.live').waitFor();
    await page.goto(`${balancer.url}/console/data/notes`);
    await page.locator('.connection.live').waitFor();
    const set = async (at: number, key: string): Promise<void> => {
      const { url, alice } = servers[at] as Running;
      await new Stoa({ url, token: alice }).data('notes').set(key, at);
      await page.locator('.tree-row', { hasText: key }).waitFor();
    };
    for (let at = 0; at < servers.length; at += 1) await set(at, `from-${at}`);
    // Two of three: one of them has the stream of the page.
    for (const gone of servers.splice(1)) await gone.stop();
    await set(0, 'from-the-last');
    await page.getByRole('link', { name: 'Fleet' }).click();
    await page.getByText('No agents yet').waitFor();
  } finally {
    await page.context().close();
    await balancer.stop();
  }
});
