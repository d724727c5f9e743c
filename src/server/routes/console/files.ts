/** The files of the console: one page for every path under /console/, and the scripts and styles that it loads. */
import { readFile, readdir } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { z } from 'zod';
import { type OperationTable, anyone } from '../../../api/operation.js';
import { StoaError } from '../../../core/errors.js';
import { packageRoot } from '../../../version.js';
import { type Answer, answer, routesOf } from '../../route.js';
import { contentTypeOf } from '../files.js';

const folder = new URL('bundle/console/', packageRoot);

/**
 * The console loads only from this server, has no inline script or style, and makes no HTML from text. No
 * other page can frame it or keep a reference to its window.
 */
const consoleHeaders = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  'strict-transport-security': 'max-age=31536000',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
} as const;

interface File {
  plain: Buffer;
  zipped: Buffer;
}

/** By the name in the folder. Read once, because the files do not change while the server runs. */
let files: Promise<ReadonlyMap<string, File>> | undefined;

async function readFiles(): Promise<ReadonlyMap<string, File>> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = names
    .filter((entry) => entry.isFile())
    .map((entry) =>
      `${entry.parentPath}/${entry.name}`.slice(new URL(folder).pathname.length).replace(/^\//, ''),
    );
  const read = paths.map(async (path): Promise<[string, File]> => {
    const plain = await readFile(new URL(path, folder));
    return [path, { plain, zipped: await promisify(gzip)(plain) }];
  });
  return new Map(await Promise.all(read));
}

async function fileNamed(name: string): Promise<File> {
  files ??= readFiles();
  const found = await files.catch((error: unknown) => {
    files = undefined;
    throw new StoaError('not_found', 'The console was not built.', {
      cause: error,
      fix: 'Run "npm run build".',
    });
  });
  const file = found.get(name);
  if (file === undefined) throw new StoaError('not_found', `The console has no file ${name.slice(0, 100)}.`);
  return file;
}

async function answerFile(name: string, acceptEncoding: unknown, cached: boolean): Promise<Answer<Buffer>> {
  const { plain, zipped } = await fileNamed(name);
  const isZipped = typeof acceptEncoding === 'string' && /\bgzip\b/.test(acceptEncoding);
  return answer(200, isZipped ? zipped : plain, {
    ...consoleHeaders,
    'content-type': contentTypeOf(name),
    // The names of scripts and styles contain a hash of their content.
    'cache-control': cached ? 'public, max-age=31536000, immutable' : 'no-cache',
    vary: 'Accept, Accept-Encoding, Origin',
    ...(isZipped && { 'content-encoding': 'gzip' }),
  });
}

/** The page itself, for `/` and every path under /console/. */
export function consolePage(acceptEncoding: unknown): Promise<Answer<Buffer>> {
  return answerFile('index.html', acceptEncoding, false);
}

const row = { method: 'GET', principals: anyone, consumes: 'raw', hidden: true } as const;

const operations = {
  bare: { ...row, path: '/console', summary: 'The console' },
  page: { ...row, path: '/console/*', summary: 'The console; every path shows the same page' },
  asset: { ...row, path: '/console/assets/{file}', summary: 'A script or a style of the console' },
} as const satisfies OperationTable;

const anyQuery = z.looseObject({});
const content = (about: string) => ({ contentType: 'text/html; charset=utf-8', about });

export const consoleFileRoutes = routesOf(
  'consoleFiles',
  operations,
  {
    bare: { query: anyQuery, answers: { 200: content('A page.') } },
    page: { query: anyQuery, answers: { 200: content('A page.') } },
    asset: {
      params: z.object({ file: z.string().max(200) }),
      query: anyQuery,
      answers: { 200: content('A file.') },
    },
  },
  {
    bare: ({ request }) => consolePage(request.headers['accept-encoding']),
    page: ({ request }) => consolePage(request.headers['accept-encoding']),
    asset: ({ params, request }) =>
      answerFile(`assets/${params.file}`, request.headers['accept-encoding'], true),
  },
);
