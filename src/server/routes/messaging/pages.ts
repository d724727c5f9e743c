/** AICQ's page, the page at `/`, the onboarding text, and the interface in YAML. */
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { looseQuery } from '../../../api/messaging/schemas.js';
import { type OperationTable, anyone } from '../../../api/operation.js';
import { packageRoot, version } from '../../../version.js';
import { answer, routesOf } from '../../route.js';
import { consolePage } from '../console/files.js';
import { fileRoutes } from '../files.js';

const assets = new URL('assets/messaging/', packageRoot);
/** The page loads only from this server, and has no inline script. */
const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const fileNames = {
  page: ['/aicq', 'page.html'],
  script: ['/page/page.js', 'page.js'],
  style: ['/page/page.css', 'page.css'],
  icon: ['/page/icon.svg', 'icon.svg'],
  onboarding: ['/docs', 'onboarding.md'],
} as const;

const aicq = {
  root: {
    method: 'GET',
    path: '/',
    summary: "The console for a browser, AICQ's page for every other client",
    principals: anyone,
    consumes: 'raw',
    hidden: true,
  },
  about: {
    method: 'GET',
    path: '/api',
    summary: "Get the name and version, which AICQ's clients check",
    principals: anyone,
    consumes: 'raw',
  },
  openapi: {
    method: 'GET',
    path: '/docs/openapi.yaml',
    summary: 'Get the OpenAPI document in YAML',
    principals: anyone,
    consumes: 'raw',
  },
} as const satisfies OperationTable;

export const pageRoutes = [
  ...fileRoutes('page', assets, fileNames, { query: looseQuery({}), policy: pagePolicy }),
  ...routesOf(
    'aicq',
    aicq,
    {
      root: {
        query: looseQuery({}),
        answers: { 200: { contentType: 'text/html; charset=utf-8', about: 'A page.' } },
      },
      about: {
        query: looseQuery({}),
        answers: { 200: z.object({ name: z.literal('AICQ'), version: z.string(), docs: z.string() }) },
      },
      openapi: {
        query: looseQuery({}),
        answers: { 200: { contentType: 'application/yaml; charset=utf-8', about: 'OpenAPI 3.1.' } },
      },
    },
    {
      root: async ({ request }) => {
        // A client that accepts anything is not a browser. A page that makes its own name resolve to this
        // server does not get the console.
        const wantsPage = /\btext\/html\b/i.test(request.headers.accept ?? '');
        if (wantsPage && request.server.stoaServer.hostCheck.serves(request))
          return consolePage(request.headers['accept-encoding']);
        return answer(200, await readFile(new URL('page.html', assets)), {
          'content-security-policy': pagePolicy,
          'cache-control': 'no-cache',
          vary: 'Accept, Origin',
        });
      },
      about: () => ({ name: 'AICQ' as const, version, docs: '/docs' }),
      openapi: ({ request }) => request.server.stoaServer.openApi.yaml(),
    },
  ),
];
