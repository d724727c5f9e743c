/** The console in a real browser: Debian's chromium. */
import { type Browser, type BrowserContextOptions, type Page, chromium } from 'playwright-core';
import { operatorCaller } from '../../src/core/caller.js';
import type { Stoa } from '../../src/index.js';

const executablePath = process.env['CHROMIUM'] ?? '/usr/bin/chromium';

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

export interface Opened {
  page: Page;
  /** Errors and warnings of the page: a refused script, an exception. */
  complaints: string[];
}

/** A page of its own browser profile. */
export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  return { page, complaints };
}

/** A one-time link of the operator, or of a user. */
export async function signInLink(stoa: Stoa, url: string, user?: string): Promise<string> {
  const { token } = await stoa.identity.console.createCode(operatorCaller(user));
  return `${url}/console/#sign-in=${token}`;
}
