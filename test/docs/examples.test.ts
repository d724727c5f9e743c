/**
 * Runs the examples of the documentation. A `ts` block that imports something begins a program; one
 * that does not continues it. A block that cannot run says so and why: `ts no-run: reason`.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { operatorCaller } from '../../src/index.js';
import { compiledSources } from '../compiled.js';
import { Running } from '../server/running.js';

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, '../..');
const generated = join(here, 'generated');
/** The programs as the pages have them. */
const written = join(generated, 'written');
const entries: Record<string, string> = {
  stoa: 'index',
  'stoa/client': 'client/index',
  'stoa/conformance': 'conformance',
  'stoa/langgraph': 'langgraph/index',
};
const pages = [
  'README.md',
  ...(await readdir(join(root, 'docs'), { recursive: true }))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
];
const programs = (await Promise.all(pages.map(programsOf))).flat();

interface Program {
  name: string;
  file: string;
  code: string;
}

let running: Running;
let directory: string;

/** What the programs opened. A program that ends has closed it; a module has not. */
const opened: { close(): Promise<void> }[] = [];
vi.stubGlobal('noted', (stoa: (typeof opened)[number]) => {
  opened.push(stoa);
  return stoa;
});

beforeAll(async () => {
  running = await Running.start();
  directory = await mkdtemp(join(tmpdir(), 'stoa-examples-'));
  await mkdir(generated, { recursive: true });
  for (const { file, code } of programs) await writeFile(join(generated, `${file}.ts`), placed(code, file));
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await running.stop();
  await rm(directory, { recursive: true });
  await rm(generated, { recursive: true });
});

test('every example compiles against the types that are shipped', async () => {
  const declarations = await compiledSources();
  const paths = {
    ...Object.fromEntries(
      Object.entries(entries).map(([entry, file]) => [entry, [join(declarations, `${file}.d.ts`)]]),
    ),
    '@langchain/langgraph-checkpoint': [
      join(root, 'test/node_modules/@langchain/langgraph-checkpoint/dist/index.d.ts'),
    ],
  };
  // Readers keep what an example names, and may index lists as they like.
  const compilerOptions = {
    paths,
    noUnusedLocals: false,
    noUnusedParameters: false,
    noUncheckedIndexedAccess: false,
  };
  await mkdir(written);
  for (const { file, code } of programs) await writeFile(join(written, `${file}.ts`), code);
  await writeFile(
    join(written, 'tsconfig.json'),
    JSON.stringify({ extends: '../../../tsconfig.json', compilerOptions, include: ['*.ts'], exclude: [] }),
  );
  const compiled = promisify(execFile)(process.execPath, [
    join(root, 'node_modules/typescript/bin/tsc'),
    '--noEmit',
    '-p',
    written,
  ]);
  expect(await compiled.catch(({ stdout }: { stdout: string }) => ({ stdout }))).toMatchObject({
    stdout: '',
  });
  expect(programs.length).toBeGreaterThan(5);
});

test.each(programs)('$name runs, and runs again on the same data', async ({ file }) => {
  const { token } = await running.stoa.identity.createToken(operatorCaller(), file, {}, null);
  vi.stubEnv('STOA_TOKEN', token);
  const talk = vi.spyOn(console, 'log').mockReturnValue();
  try {
    // Another address is another module.
    for (const run of ['first', 'second']) {
      await import(`${join(generated, `${file}.ts`)}?${run}`);
      for (const stoa of opened.splice(0)) await stoa.close();
    }
  } finally {
    talk.mockRestore();
  }
});

async function programsOf(page: string): Promise<Program[]> {
  const text = await readFile(join(root, page), 'utf8');
  const found: Program[] = [];
  for (const [, mark = '', code = ''] of text.matchAll(/^```ts\b(.*)\n([\s\S]*?)^```$/gm)) {
    if (mark !== '') {
      expect([page, mark]).toEqual([page, expect.stringMatching(/^ no-run: \w+/)]);
      continue;
    }
    const last = found.at(-1);
    if (/^import /m.test(code) || last === undefined)
      found.push({
        name: `${page} ${found.length + 1}`,
        file: `${page}-${found.length + 1}`.replaceAll(/\W+/g, '-'),
        code,
      });
    else last.code += code;
  }
  return found;
}

/** The program with the paths and addresses of the test. */
function placed(code: string, file: string): string {
  return code
    .replaceAll(
      /from '(stoa[^']*)'/g,
      (_, entry: string) => `from '../../../src/${entries[entry] ?? entry}.js'`,
    )
    .replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, running.url)
    .replaceAll("'./data'", `'${join(directory, file)}'`)
    .replaceAll(/await openStoa\((.*)\)/g, 'noted(await openStoa($1))');
}
