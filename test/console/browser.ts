/** The console in a real browser. */
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { operatorCaller } from '../../src/core/caller.js';
import type { Stoa } from '../../src/index.js';
export { sharedBrowser as launch } from '../servers/shared.js';

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
