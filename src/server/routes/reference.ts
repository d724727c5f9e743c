/** The server about itself: OpenAPI, a page to read it on, and numbers for Prometheus. */
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { errorKinds } from '../../errors.js';
import { packageRoot } from '../../version.js';
import { missingCredentials } from '../authentication.js';
import { answer, anyone, authenticated, defineRoute } from '../route.js';

const assets = new URL('assets/reference/', packageRoot);
const llmsFile = new URL('llms.txt', packageRoot);
const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const errorTableSchema = z
  .object({
    items: z.array(z.object({ code: z.string(), status: z.int(), exit: z.int(), title: z.string() })),
  })
  .meta({ id: 'ErrorTable' });

export const referenceRoutes = [
  defineRoute({
    method: 'GET',
    path: '/openapi.json',
    summary: 'This document',
    tags: ['reference'],
    principals: anyone,
    answers: { 200: z.looseObject({ openapi: z.string() }) },
    handler: ({ request }) => ({ openapi: '3.1.0', ...request.server.stoaServer.openApi() }),
  }),
  defineRoute({
    method: 'GET',
    path: '/reference/errors.json',
    summary: 'Every error code with its HTTP status and the exit status of the CLI',
    tags: ['reference'],
    principals: anyone,
    answers: { 200: errorTableSchema },
    handler: () => ({
      items: Object.entries(errorKinds).map(([code, { status, exit, title }]) => ({
        code,
        status,
        exit,
        title,
      })),
    }),
  }),
  defineRoute({
    method: 'GET',
    path: '/metrics',
    summary: 'Numbers for Prometheus',
    description: 'With the setting `metrics_token` any token is required.',
    tags: ['reference'],
    principals: [...authenticated, ...anyone],
    answers: {
      200: { contentType: 'text/plain; version=0.0.4; charset=utf-8', about: 'The Prometheus text format.' },
    },
    handler: ({ request, caller }) => {
      const { metrics, metricsNeedToken } = request.server.stoaServer;
      if (metricsNeedToken && caller === null) throw missingCredentials();
      return metrics.registry.metrics();
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/llms.txt',
    summary: 'What this is, for language models',
    tags: ['reference'],
    principals: anyone,
    answers: { 200: { contentType: 'text/plain; charset=utf-8', about: 'Markdown.' } },
    handler: () => readFile(llmsFile),
  }),
  asset('/reference', 'reference.html', 'text/html; charset=utf-8'),
  asset('/reference/reference.js', 'reference.js', 'text/javascript; charset=utf-8'),
  asset('/reference/reference.css', 'reference.css', 'text/css; charset=utf-8'),
];

function asset(path: string, file: string, contentType: string) {
  return defineRoute({
    method: 'GET',
    path,
    summary: `The file ${file}`,
    tags: ['reference'],
    principals: anyone,
    hidden: true,
    answers: { 200: { contentType, about: 'A file.' } },
    handler: async () =>
      answer(200, await readFile(new URL(file, assets)), {
        'content-security-policy': pagePolicy,
        'cache-control': 'no-cache',
      }),
  });
}
