/** A real browser, Debian's chromium, that the suites share. */
import { type Browser, chromium } from 'playwright-core';
import type { TestServer } from './child.js';

/** `CHROMIUM` names another browser. */
const options = {
  executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-dev-shm-usage',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
};

export async function start(): Promise<TestServer> {
  const server = await chromium.launchServer(options);
  return { url: server.wsEndpoint(), describe: 'Chromium (real)', stop: () => server.close() };
}

/** A browser that no other suite uses, for a suite that measures the whole browser. */
export function ownBrowser(): Promise<Browser> {
  return chromium.launch(options);
}
