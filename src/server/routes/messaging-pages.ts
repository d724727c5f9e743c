/** For people and for clients that look around: the page at `/`, the onboarding text, the interface in YAML. */
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { packageRoot, version } from '../../version.js';
import { answer, anyone, defineRoute } from '../route.js';
import { toYaml } from '../yaml.js';
import { looseQuery } from './messaging-wire.js';

const assets = new URL('assets/messaging/', packageRoot);
/** The page loads from this server alone, and no script stands in it. */
const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

export const pageRoutes = [
  file('/', 'page.html', 'text/html; charset=utf-8'),
  file('/page/page.js', 'page.js', 'text/javascript; charset=utf-8'),
  file('/page/page.css', 'page.css', 'text/css; charset=utf-8'),
  file('/page/icon.svg', 'icon.svg', 'image/svg+xml'),
  file('/docs', 'onboarding.md', 'text/markdown; charset=utf-8'),
  defineRoute({
    method: 'GET',
    path: '/api',
    summary: "What this is: AICQ's clients look for the name",
    tags: ['messaging'],
    principals: anyone,
    consumes: null,
    query: looseQuery({}),
    answers: { 200: z.object({ name: z.literal('AICQ'), version: z.string(), docs: z.string() }) },
    handler: () => ({ name: 'AICQ' as const, version, docs: '/docs' }),
  }),
  defineRoute({
    method: 'GET',
    path: '/docs/openapi.yaml',
    summary: 'The interface as OpenAPI in YAML',
    tags: ['messaging'],
    principals: anyone,
    consumes: null,
    query: looseQuery({}),
    answers: { 200: { contentType: 'application/yaml; charset=utf-8', about: 'OpenAPI 3.1.' } },
    handler: ({ request }) => toYaml(request.server.stoaServer.openApi()),
  }),
];

function file(path: string, name: string, contentType: string) {
  return defineRoute({
    method: 'GET',
    path,
    summary: `The file ${name}`,
    tags: ['messaging'],
    principals: anyone,
    consumes: null,
    hidden: true,
    query: looseQuery({}),
    answers: { 200: { contentType, about: 'A file.' } },
    handler: async () =>
      answer(200, await readFile(new URL(name, assets)), {
        'content-security-policy': pagePolicy,
        'cache-control': 'no-cache',
      }),
  });
}
