/**
 * One server and one browser for the tests of all pages. Each page has a person of its own, with a fleet of its own:
 * no test sees the records of another page.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { Stoa } from '../../../src/client/index.js';
import { loadConfig } from '../../../src/core/settings/config.js';
import { Running } from '../../server/running.js';
import { launch, openPage, signInLink } from '../browser.js';
import { type Demo, type Owner, makeDemo, ownerOf } from '../demo/demo.js';

export interface Person extends Owner {
  readonly stoa: Stoa;
  readonly demo: Demo;
  as(agent: string): Stoa;
}

export class SharedConsole {
  readonly running: Running;
  readonly browser: Browser;
  /** Where the operator is signed in. */
  readonly page: Page;
  readonly #directory: string;

  private constructor(running: Running, browser: Browser, page: Page, directory: string) {
    this.running = running;
    this.browser = browser;
    this.page = page;
    this.#directory = directory;
  }

  static async start(): Promise<SharedConsole> {
    const directory = mkdtempSync(join(tmpdir(), 'stoa-console-'));
    const { rows } = loadConfig({ environment: { STOA_LOG_LEVEL: 'warn' }, directory: null });
    const running = await Running.start({ engine: 'lmdb', data: directory }, { settings: rows });
    const browser = await launch();
    const { page } = await openPage(browser, { permissions: ['clipboard-read', 'clipboard-write'] });
    const shared = new SharedConsole(running, browser, page, directory);
    await shared.signIn(page);
    return shared;
  }

  async stop(): Promise<void> {
    await this.browser.close();
    await this.running.stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  /** Signs in as the operator, or as a user. */
  async signIn(page: Page, user?: string): Promise<void> {
    await page.goto(await signInLink(this.running.stoa, this.running.url, user));
    await page.locator('.connection.live').waitFor();
  }

  /** A page of its own browser profile. */
  async open(user?: string, options = {}): Promise<Page> {
    const { page } = await openPage(this.browser, options);
    await this.signIn(page, user);
    return page;
  }

  /** Shows what the operator sees of a user; a user sees only their own. */
  async show(path: string, user: string, page = this.page): Promise<void> {
    await page.goto(`${this.running.url}/console/${path}${path.includes('?') ? '&' : '?'}user=${user}`);
    await page.locator('.connection.live').waitFor();
  }

  async person(user: string): Promise<Person> {
    const owner = await ownerOf(this.running, user);
    const { url } = this.running;
    return {
      ...owner,
      stoa: new Stoa({ url, token: owner.token }),
      as: (agent) => new Stoa({ url, token: owner.token, agent }),
      demo: await makeDemo(this.running, owner),
    };
  }
}
