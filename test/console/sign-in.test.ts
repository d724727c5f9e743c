import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Running } from '../server/running.js';
import { launch, openPage, signInLink } from './browser.js';

let running: Running;
let browser: Browser;
/** How far the server's clock is ahead. */
let aheadMs = 0;

beforeAll(async () => {
  running = await Running.start({ clock: () => Date.now() + aheadMs });
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  await running.stop();
});

async function codeFor(as: string): Promise<string> {
  const { text } = await running.ask('POST', '/v1/console/links', { as });
  const { path } = JSON.parse(text) as { path: string };
  return path.split('=')[1] ?? '';
}

const browserAccept = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

test('a browser gets the console at /, every other client gets the page of AICQ', async () => {
  const shown = await running.ask('GET', '/', { headers: browserAccept });
  expect(shown.text).toContain('/console/assets/');
  expect(shown.headers.get('vary')).toContain('Accept');
  const policy = shown.headers.get('content-security-policy');
  expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self';/);
  expect(policy).not.toMatch(/unsafe|data:|https?:|\*/);
  const other = await running.ask('GET', '/', { headers: { accept: '*/*' } });
  expect(other.text).toContain('/page/page.js');
  expect(other.headers.get('vary')).toContain('Accept');
  expect((await running.ask('GET', '/aicq', { headers: browserAccept })).text).toContain('/page/page.js');
});

test('a page that makes its own name resolve to the server does not get the console', async () => {
  const refused = await running.bytes(
    'GET /console/ HTTP/1.1\r\nHost: evil.example\r\nAccept: text/html\r\nConnection: close\r\n\r\n',
  );
  expect(refused).toContain('HTTP/1.1 403');
  const root = await running.bytes(
    'GET / HTTP/1.1\r\nHost: evil.example\r\nAccept: text/html\r\nConnection: close\r\n\r\n',
  );
  expect(root).not.toContain('/console/assets/');
});

test('the console is at most 200 KB gzipped, and has no inline script or style', async () => {
  const page = await running.ask('GET', '/console/');
  const paths = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path as string);
  let bytes = page.text.length;
  for (const path of paths) {
    const { status, headers } = await running.ask('GET', path, { headers: { 'accept-encoding': 'gzip' } });
    expect(status).toBe(200);
    bytes += Number(headers.get('content-length'));
  }
  expect(paths.length).toBeGreaterThan(2);
  expect(bytes).toBeLessThan(200_000);
  expect(page.text).not.toMatch(/<style|style=|<script(?![^>]*src=)/);
});

test('a link signs in once, and its code is in no address, history or log afterwards', async () => {
  const { page, complaints } = await openPage(browser);
  const link = await signInLink(running.stoa, running.url);
  await page.goto(link);
  await page.getByRole('heading', { name: 'Fleet' }).waitFor();
  expect(page.url()).not.toContain('stoa_');
  await page.getByText('All users').waitFor({ state: 'attached' });
  const second = await openPage(browser);
  await second.page.goto(link);
  await second.page.getByText('The sign-in link was used before').waitFor();
  expect(complaints).toEqual([]);
});

test('two exchanges of one code at once start one session', async () => {
  const code = (await signInLink(running.stoa, running.url)).split('=')[1];
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => running.ask('POST', '/v1/console/session', { body: { code } })),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 401)).toHaveLength(7);
});

test('the code of a link is not a credential, and a session has no more rights than its token', async () => {
  const code = await codeFor(running.reader);
  expect((await running.ask('GET', '/v1/agents', { as: code })).status).toBe(401);
  const { json: session } = await running.ask('POST', '/v1/console/session', { body: { code } });
  expect(session).toMatchObject({ kind: 'user', user: 'alice', scopes: { write: false } });
  const refused = await running.ask('POST', '/v1/agents', { as: session.token, body: { name: 'x' } });
  expect(refused.status).toBe(403);
  expect((await running.ask('GET', '/v1/users', { as: session.token })).status).toBe(403);
});

test('a session ends with the token that granted it, and with the sign-out', async () => {
  const operator = running.stoa.operatorToken;
  const { json: made } = await running.ask('POST', '/v1/users/carol/tokens', { as: operator, body: {} });
  const start = async (as: string): Promise<string> => {
    const body = { code: await codeFor(as) };
    return (await running.ask('POST', '/v1/console/session', { body })).json.token as string;
  };
  const [first, second] = [await start(made.token), await start(made.token)];
  const statusOf = async (as: string): Promise<number> =>
    (await running.ask('GET', '/v1/console/session', { as })).status;
  await running.ask('DELETE', '/v1/console/session', { as: first });
  expect([await statusOf(first), await statusOf(second), await statusOf(made.token)]).toEqual([
    401, 200, 200,
  ]);
  // A session makes further links, which end with the first token too.
  const third = await start(second);
  await running.ask('DELETE', `/v1/users/carol/tokens?token=${made.token_id}`, { as: operator });
  expect([await statusOf(second), await statusOf(third)]).toEqual([401, 401]);
});

test('a token signs in, a second tab has the session too, and signing out ends it in both', async () => {
  const { page } = await openPage(browser);
  await page.goto(`${running.url}/console/fleet`);
  await page.getByLabel('Or paste a token').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('The bearer token is unknown, revoked or expired.').waitFor();
  await page.getByLabel('Or paste a token').fill(running.alice);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Fleet' }).waitFor();
  const other = await page.context().newPage();
  await other.goto(`${running.url}/console/fleet`);
  await other.getByRole('heading', { name: 'Fleet' }).waitFor();
  await other.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('Or paste a token').waitFor();
  expect((await page.context().cookies()).length).toBe(0);
});

test('the session is in the storage of its tab alone: no cookie, nothing that outlives the tab', async () => {
  const { page } = await openPage(browser);
  const answered = page.waitForResponse(`${running.url}/v1/console/session`);
  await page.goto(await signInLink(running.stoa, running.url, 'alice'));
  expect((await (await answered).allHeaders())['set-cookie']).toBeUndefined();
  await page.getByRole('heading', { name: 'Fleet' }).waitFor();
  expect(await page.evaluate('Object.keys(sessionStorage)')).toContain('stoa.session');
  expect(await page.evaluate('JSON.stringify(localStorage) + document.cookie')).not.toContain('stoa_');
  expect(await page.context().cookies()).toEqual([]);
  await page.context().close();
});

test('a server that does not answer for a while does not sign anybody out', async () => {
  const { page } = await openPage(browser);
  await page.goto(await signInLink(running.stoa, running.url, 'alice'));
  await page.locator('.connection.live').waitFor();
  await page.route('**/v1/console/session', (route) => route.abort());
  await page.reload();
  await page.getByText('The server does not answer').waitFor();
  await page.unroute('**/v1/console/session');
  await page.locator('.connection.live').waitFor();
  await page.context().close();
});

test('a page of another origin can neither exchange a code nor use a session', async () => {
  const code = await codeFor(running.alice);
  const headers = { origin: 'https://evil.example' };
  const refused = await running.ask('POST', '/v1/console/session', { body: { code }, headers });
  expect(refused.status).toBe(403);
  expect(refused.headers.get('access-control-allow-origin')).toBeNull();
  // The refused exchange did not use the code.
  const { json: session } = await running.ask('POST', '/v1/console/session', { body: { code } });
  expect((await running.ask('GET', '/v1/agents', { as: session.token, headers })).status).toBe(403);
  expect((await running.ask('GET', '/v1/agents', { as: session.token })).status).toBe(200);
});

test('a link expires after ten minutes, and a session after twelve hours', async () => {
  const [used, late] = [await codeFor(running.alice), await codeFor(running.alice)];
  const { json: session } = await running.ask('POST', '/v1/console/session', { body: { code: used } });
  aheadMs = 10 * 60_000 + 1_000;
  expect((await running.ask('POST', '/v1/console/session', { body: { code: late } })).status).toBe(401);
  const { page } = await openPage(browser);
  await page.goto(`${running.url}/console/#sign-in=${late}`);
  await page.getByText('The sign-in link was used before').waitFor();
  expect((await running.ask('GET', '/v1/agents', { as: session.token })).status).toBe(200);
  aheadMs = 12 * 3_600_000 + 1_000;
  expect((await running.ask('GET', '/v1/agents', { as: session.token })).status).toBe(401);
  await page.context().close();
});
