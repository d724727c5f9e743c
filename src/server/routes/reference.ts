/** Reference routes: OpenAPI, a page that shows it, and metrics for Prometheus. */
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { type OperationTable, type SchemasOf, anyone, authenticated } from '../../api/operation.js';
import { type ErrorCode, errorKinds } from '../../core/errors.js';
import { packageRoot } from '../../version.js';
import { errorFixes } from '../openapi/fixes.js';
import { missingCredentials } from '../request/authentication.js';
import { JsonText, routesOf } from '../route.js';
import { fileRoutes } from './files.js';

const assets = new URL('assets/reference/', packageRoot);
const llmsFile = new URL('llms.txt', packageRoot);
const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const errorTableSchema = z
  .object({
    items: z.array(
      z.object({
        code: z.string(),
        status: z.int(),
        exit: z.int(),
        title: z.string(),
        fix: z.string().describe('What a caller can do about it'),
      }),
    ),
  })
  .meta({ id: 'ErrorTable' });

const reference = {
  openapi: { method: 'GET', path: '/openapi.json', summary: 'Get this document', principals: anyone },
  errors: {
    method: 'GET',
    path: '/reference/errors.json',
    summary: 'List every error code with its HTTP status, the exit status of the CLI and what to do',
    principals: anyone,
  },
  metrics: {
    method: 'GET',
    path: '/metrics',
    summary: 'Get the metrics for Prometheus',
    principals: [...authenticated, ...anyone],
  },
  llms: {
    method: 'GET',
    path: '/llms.txt',
    summary: 'Get a description of Stoa for language models',
    principals: anyone,
  },
} as const satisfies OperationTable;

const schemas = {
  openapi: { answers: { 200: z.looseObject({ openapi: z.string() }) } },
  errors: { answers: { 200: errorTableSchema } },
  metrics: {
    description: 'With the setting `metrics_token` any token is required.',
    answers: {
      200: { contentType: 'text/plain; version=0.0.4; charset=utf-8', about: 'The Prometheus text format.' },
    },
  },
  llms: { answers: { 200: { contentType: 'text/plain; charset=utf-8', about: 'Markdown.' } } },
} satisfies SchemasOf<typeof reference>;

const fileNames = {
  page: ['/reference', 'reference.html'],
  script: ['/reference/reference.js', 'reference.js'],
  style: ['/reference/reference.css', 'reference.css'],
} as const;

export const referenceRoutes = [
  ...routesOf('reference', reference, schemas, {
    openapi: async ({ request }) => new JsonText(await request.server.stoaServer.openApi.json()),
    errors: () => ({
      items: (Object.keys(errorKinds) as ErrorCode[]).map((code) => {
        const { status, exit, title } = errorKinds[code];
        return { code, status, exit, title, fix: errorFixes[code] };
      }),
    }),
    metrics: ({ request, caller }) => {
      const { metrics, metricsNeedToken } = request.server.stoaServer;
      if (metricsNeedToken && caller === null) throw missingCredentials();
      return metrics.registry.metrics();
    },
    llms: () => readFile(llmsFile),
  }),
  ...fileRoutes('reference', assets, fileNames, { policy: pagePolicy }),
];
