import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sharedBrowser } from '../servers/shared.js';
import { type Agent, MessagingServer, roomy } from './kit.js';

const hostile = [
  '<script>window.hit = 1</script>',
  '<img src=x onerror="window.hit = 2">',
  '"><svg/onload=window.hit=3>',
  'javascript:window.hit=4',
  '</p></li></ol><h1>taken over</h1>',
  '\u202Egnirts desrever\u202C after',
  `${'w'.repeat(3_000)}`,
  'line one\nline two\n\n\nline five',
  '{{constructor.constructor("window.hit=5")()}} ${window.hit=6}',
];

let server: MessagingServer;
let browser: Browser;
let ann: Agent;

beforeAll(async () => {
  server = await MessagingServer.open();
  ann = await server.agent('<b>Ann</b> & "Co"');
  browser = await sharedBrowser();
});
afterAll(async () => {
  await browser.close();
  await server.close();
});

async function openPage(
  on = server,
  viewport = { width: 1280, height: 720 },
): Promise<{ page: Page; complaints: string[] }> {
  const page = await browser.newPage({ viewport });
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  await page.goto(`${on.url}/aicq`);
  await page.locator('#live.on').waitFor();
  return { page, complaints };
}

describe('the page for people', () => {
  it('shows hostile texts as text and does not run them', async () => {
    for (const text of hostile) await ann.post('global', text);
    const { page, complaints } = await openPage();
    await page
      .locator('#feed .body')
      .nth(hostile.length - 1)
      .waitFor();
    expect(await page.locator('#feed .body').allTextContents()).toEqual(hostile);
    await page.getByText('<b>Ann</b> & "Co"').first().waitFor();
    expect(await page.evaluate('window.hit')).toBeUndefined();
    expect(await page.locator('h1').count()).toBe(1);
    expect(await page.locator('#feed script, #feed img, #feed svg, #feed b').count()).toBe(0);
    expect(complaints).toEqual([]);
    // A word of three thousand letters must not break the layout.
    expect(await page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')).toBe(true);
    await page.screenshot({ path: 'report/messaging-page.png' });
    await page.close();
  });

  it('has no inline script and loads only from its own server', async () => {
    const { headers, text } = await server.ask('GET', '/');
    expect(headers.get('content-security-policy')).toMatch(/default-src 'none'; script-src 'self';/);
    expect(headers.get('content-security-policy')).not.toMatch(/unsafe|https?:|\*/);
    expect(text).not.toMatch(/<script(?![^>]*\bsrc=)|\son\w+=|javascript:|style=/i);
  });

  it('shows new, answered and deleted messages while it is open, with signatures checked', async () => {
    const { page, complaints } = await openPage();
    const root = await ann.post('global', 'a fresh question');
    const item = page.locator('#feed .message', { hasText: 'a fresh question' });
    await item.waitFor();
    await item.locator('.badge.good', { hasText: 'signature checked' }).waitFor();
    await ann.post('global', 'something else');
    await ann.post('global', 'a fresh answer', { pid: root.id });
    const answer = page.locator('#feed .message.reply', { hasText: 'a fresh answer' });
    await answer.waitFor();
    expect(await item.evaluate((node) => node.nextElementSibling?.textContent)).toContain('a fresh answer');
    await ann.ask('DELETE', `/room/global/${root.id}`);
    await page.locator('#feed .body', { hasText: '(deleted)' }).waitFor();
    expect(complaints).toEqual([]);
    await page.close();
  });

  it('goes from room to room, and searches', async () => {
    const room = await server.room(ann, 'side-room');
    await ann.post(room, 'whispered elsewhere');
    const { page } = await openPage();
    await page.getByRole('button', { name: 'side-room' }).click();
    await page.getByText('whispered elsewhere').waitFor();
    await page.getByRole('searchbox').fill('question <script>');
    await page.getByRole('searchbox').press('Enter');
    await page.getByText('Results for').waitFor();
    await page.getByRole('searchbox').fill('whispered');
    await page.getByRole('searchbox').press('Enter');
    await page.locator('.room', { hasText: 'in side-room' }).waitFor();
    await page.close();
  });

  it('fits a phone, with rooms, title and state in view', async () => {
    const { page } = await openPage(server, { width: 390, height: 844 });
    await page.locator('#feed .body').first().waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')).toBe(true);
    for (const part of ['#query', '#rooms button', '#title', '#live'])
      expect(await page.locator(part).first().isVisible(), part).toBe(true);
    // Most of the screen is for what is said.
    expect((await page.locator('section').boundingBox())?.height).toBeGreaterThan(844 / 2);
    await page.close();
  });

  it('stops requests after a 429, and shows why it cannot search', async () => {
    const strict = await MessagingServer.open({
      limits: { ...roomy, profileReadsPerMinuteMax: 3, searchesPerMinuteMax: 1 },
    });
    try {
      for (let index = 0; index < 8; index += 1)
        await (await strict.agent(`Agent ${index}`)).post('global', `hello from ${index}`);
      const page = await browser.newPage();
      const refused: string[] = [];
      page.on('response', (response) => {
        if (response.status() === 429) refused.push(response.url());
      });
      await page.goto(`${strict.url}/aicq`);
      await page.getByText('Agent 2').waitFor();
      await expect.poll(() => refused.length).toBeGreaterThan(0);
      for (const word of ['hello', 'from']) {
        await page.locator('#query').fill(word);
        await page.locator('#query').press('Enter');
        await page.getByText(`Results for “${word}”`).waitFor();
      }
      await page.getByText(/Too many requests from here: try again in \d+ seconds\./).waitFor();
      expect(refused.filter((url) => url.includes('/who/'))).toHaveLength(1);
      await page.close();
    } finally {
      await strict.close();
    }
  });
});
