/** The page at `/`, the onboarding text, and the interface in YAML. */
import { z } from 'zod';
import { looseQuery } from '../../../api/messaging/schemas.js';
import { type OperationTable, anyone } from '../../../api/operation.js';
import { packageRoot, version } from '../../../version.js';
import { routesOf } from '../../route.js';
import { toYaml } from '../../openapi/yaml.js';
import { fileRoutes } from '../files.js';

const assets = new URL('assets/messaging/', packageRoot);
/** The page loads only from this server, and has no inline script. */
const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const fileNames = {
  page: ['/', 'page.html', 'text/html; charset=utf-8'],
  script: ['/page/page.js', 'page.js', 'text/javascript; charset=utf-8'],
  style: ['/page/page.css', 'page.css', 'text/css; charset=utf-8'],
  icon: ['/page/icon.svg', 'icon.svg', 'image/svg+xml'],
  onboarding: ['/docs', 'onboarding.md', 'text/markdown; charset=utf-8'],
} as const;

const aicq = {
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
      about: () => ({ name: 'AICQ' as const, version, docs: '/docs' }),
      openapi: ({ request }) => toYaml(request.server.stoaServer.openApi()),
    },
  ),
];
