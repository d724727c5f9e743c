import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { type OutputChunk, rolldown } from 'rolldown';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { errorKinds } from '../../src/core/errors.js';
import { Running } from '../server/running.js';
import { sharedBrowser } from '../servers/shared.js';
import type { Setting } from './browser-app.js';

const clientPath = fileURLToPath(new URL('../../src/client/index.ts', import.meta.url));
/**
 * Measured as 49 kB, including the tables of operations; a server, a schema library or a second codec in the
 * bundle would be far more.
 */
const stoaBytesMax = 53_000;

let site: Server;
let sitePort: number;
let running: Running;
let browser: Browser;

beforeAll(async () => {
  const { code } = await bundled(fileURLToPath(new URL('browser-app.ts', import.meta.url)));
  site = createServer((request, response) => {
    const isCode = request.url === '/app.js';
    response
      .writeHead(200, { 'content-type': isCode ? 'text/javascript' : 'text/html' })
      .end(isCode ? code : '<!doctype html><title>App</title><script type="module" src="/app.js"></script>');
  });
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  sitePort = (site.address() as AddressInfo).port; // A TCP server that listens has an AddressInfo.
  running = await Running.start({}, { corsOrigin: [`http://127.0.0.1:${sitePort}`] });
  browser = await sharedBrowser();
}, 60_000);
afterAll(async () => {
  await browser.close();
  await running.stop();
  await new Promise((resolve) => site.close(resolve));
});

/** As an app's own bundler makes it: for browsers, nothing left outside. */
async function bundled(input: string, virtual?: string): Promise<OutputChunk> {
  const build = await rolldown({
    input,
    platform: 'browser',
    logLevel: 'silent',
    resolve: { extensionAlias: { '.js': ['.ts', '.js'] } },
    plugins:
      virtual === undefined
        ? []
        : [
            {
              name: 'virtual',
              resolveId: (id) => (id === input ? id : null),
              load: (id) => (id === input ? virtual : null),
            },
          ],
  });
  const { output } = await build.generate({ format: 'esm', minify: true });
  await build.close();
  expect(output).toHaveLength(1);
  return output[0];
}

async function pageAt(origin: string): Promise<Page> {
  const page = await browser.newPage();
  await page.goto(origin);
  await page.waitForFunction('typeof run === "function"');
  return page;
}

test('a page of an allowed origin uses every domain, signs and encrypts', async () => {
  const page = await pageAt(`http://127.0.0.1:${sitePort}/`);
  const setting: Setting = { url: running.url, token: running.alice };
  const outcome = await page.evaluate(`run(${JSON.stringify(setting)})`);
  expect(outcome).toMatchObject({
    data: { seen: [[['a/b', 'one']], [['set', 'ü', 1]]], value: 'two', conflict: 'version_conflict' },
    agents: { status: 'running', fence: 1 },
    tasks: 'completed',
    commit: { ok: true },
    rooms: { bodies: ['signed in a browser'], authentic: [true], direct: [['for your eyes only', false]] },
  });
  await page.close();
}, 60_000);

test('a page of another origin can use neither /v1 nor messaging', async () => {
  const page = await pageAt(`http://localhost:${sitePort}/`);
  const ask = (path: string) =>
    page.evaluate(
      `fetch(${JSON.stringify(running.url + path)}, { headers: { authorization: 'Bearer ${running.alice}' } }).then(({ status }) => status, (error) => error.name)`,
    );
  expect(await ask('/v1/data')).toBe('TypeError');
  expect(await ask('/v1/nothing')).toBe('TypeError');
  expect(await ask('/channels')).toBe('TypeError');
  await page.close();
});

test('preflights are answered only for allowed origins, and answers have Vary: Origin', async () => {
  const asked = (origin: string) =>
    running.ask('OPTIONS', '/v1/data/n/k', { headers: { origin, 'access-control-request-method': 'PUT' } });
  const allowed = await asked(`http://127.0.0.1:${sitePort}`);
  expect([
    allowed.status,
    allowed.headers.get('access-control-allow-origin'),
    allowed.headers.get('vary'),
  ]).toEqual([204, `http://127.0.0.1:${sitePort}`, 'Origin']);
  expect(allowed.headers.get('access-control-allow-credentials')).toBeNull();
  const other = await asked('http://evil.example');
  expect([other.status, other.headers.get('access-control-allow-origin'), other.headers.get('vary')]).toEqual(
    [403, null, 'Origin'],
  );
  const refused = await running.ask('GET', '/v1/data', {
    headers: { origin: `http://127.0.0.1:${sitePort}` },
  });
  expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([
    401,
    `http://127.0.0.1:${sitePort}`,
  ]);
});

test('the bundle needs no Node built-ins and loads nothing', async () => {
  const { code, imports, dynamicImports } = await bundled(clientPath);
  expect([imports, dynamicImports]).toEqual([[], []]);
  expect(code).not.toMatch(/\bnode:|\brequire\(|\bBuffer\b|\bprocess\.|__dirname/);
});

async function sizeOf(app: string): Promise<number> {
  return (await bundled('virtual-app', app)).code.length;
}

/** The modules of the client and of its ciphers that an app still contains. */
async function modulesIn(app: string): Promise<string[]> {
  const { modules } = await bundled('virtual-app', app);
  return Object.entries(modules).flatMap(([path, { renderedLength }]) =>
    renderedLength > 0 && /\/(client|@noble)\//.test(path) ? [path.slice(path.lastIndexOf('/') + 1, -3)] : [],
  );
}

test('an app without keys contains no cipher, and a data-only app nothing of other domains', async () => {
  const ciphers = ['chacha', 'ed25519', 'keys'];
  const stoa = await modulesIn(
    `import { Stoa } from '${clientPath}'; console.log(new Stoa({ url: 'http://localhost' }).room('global'))`,
  );
  expect(stoa.filter((name) => ciphers.includes(name))).toEqual([]);
  const signing = await modulesIn(
    `import { AgentKeys, Stoa } from '${clientPath}'; console.log(new Stoa({ url: 'http://localhost' }).agent(await AgentKeys.generate()))`,
  );
  expect(signing).toEqual(expect.arrayContaining(ciphers));
  const data = await modulesIn(
    `import { DataClient, Transport } from '${clientPath}'; console.log(new DataClient(new Transport({ url: 'http://localhost' }), 'notes'))`,
  );
  expect(data).toEqual(expect.arrayContaining(['data', 'transport']));
  expect(
    data.filter((name) =>
      [
        'agent',
        'agents',
        'direct',
        'rooms',
        'tasks',
        'workspaces',
        'watch-room',
        'signed-fetch',
        'base64',
        'renewal',
        'index',
        ...ciphers,
      ].includes(name),
    ),
  ).toEqual([]);
});

test('an app contains only what it uses', async () => {
  const whole = await sizeOf(`import * as all from '${clientPath}'; console.log(all)`);
  const stoa = await sizeOf(
    `import { Stoa } from '${clientPath}'; console.log(new Stoa({ url: 'http://localhost' }))`,
  );
  const errors = await sizeOf(`import { StoaError } from '${clientPath}'; console.log(StoaError)`);
  expect({ whole, stoa, errors }).toSatisfy(() => errors < stoa / 3 && stoa <= whole && stoa <= stoaBytesMax);
});

test('the reference shows every route and code, finds them, and fits a narrow window', async () => {
  const page = await browser.newPage({ viewport: { width: 360, height: 700 } });
  await page.goto(`${running.url}/reference`);
  await page.locator('#quota_exceeded').waitFor();
  // OpenAPI has the methods of each path there.
  const { paths } = JSON.parse((await running.ask('GET', '/openapi.json')).text) as {
    paths: Record<string, object>;
  };
  const operations = Object.values(paths).reduce((sum, methods) => sum + Object.keys(methods).length, 0);
  expect(await page.locator('article').count()).toBe(operations + Object.keys(errorKinds).length);
  expect(await page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')).toBe(true);
  expect(
    (await page.locator('article p, td').allTextContents()).filter((text) => text.includes('`')),
  ).toEqual([]);
  const found = async (words: string) => {
    await page.locator('#filter').fill(words);
    return page.evaluate(
      '[...document.querySelectorAll("article")].filter((card) => !card.hidden).map(({ id }) => id)',
    );
  };
  expect(await found('quota_exceeded')).toEqual(['quota_exceeded']);
  expect(await found('heartbeat agents')).toEqual(['agents.heartbeat']);
  await page.close();
});
