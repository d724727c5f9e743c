/** Health of the server, for probes and for AICQ clients. */
import { z } from 'zod';
import { type OperationTable, anyone } from '../../api/operation.js';
import { messageOf } from '../../core/errors.js';
import type { Stoa } from '../../index.js';
import type { HealthCheck } from '../../messaging/port.js';
import { version } from '../../version.js';
import { answer, routesOf } from '../route.js';

const checkSchema = z.object({
  status: z.enum(['pass', 'fail']),
  latency: z.string().optional(),
  message: z.string().optional(),
});

/** AICQ clients read these two names; the directory home answers under both. */
const healthSchema = z
  .object({
    status: z.enum(['healthy', 'degraded']),
    version: z.string(),
    checks: z.object({ postgres: checkSchema, redis: checkSchema }),
    timestamp: z.string(),
  })
  .meta({ id: 'Health' });

const probeSchema = z
  .object({
    status: z.enum(['ok', 'stopping', 'writes_stopped', 'disk_full', 'unavailable']),
    degraded: z
      .array(z.string())
      .optional()
      .describe('Parts that do not answer or refuse writes, and that much works without'),
    reasons: z.record(z.string(), z.string()).optional().describe('Why, by the name of the part'),
  })
  .meta({ id: 'Probe' });

const anyQuery = z.looseObject({});

const health = {
  get: {
    method: 'GET',
    path: '/health',
    summary: 'Get the health of the server and its stores',
    principals: anyone,
    consumes: 'raw',
  },
} as const satisfies OperationTable;

const probes = {
  live: { method: 'GET', path: '/livez', summary: 'Check that the process answers', principals: anyone },
  ready: {
    method: 'GET',
    path: '/readyz',
    summary: 'Check that the server accepts requests',
    principals: anyone,
  },
} as const satisfies OperationTable;

/** In AICQ's format. */
export const aicqHealthRoutes = routesOf(
  'health',
  health,
  { get: { query: anyQuery, answers: { 200: healthSchema, 503: healthSchema } } },
  {
    get: async ({ stoa }) => {
      const { postgres, redis } = await stoa.messaging.health();
      // AICQ's clients ask for two databases by name; in a data directory both are the one store.
      const store = postgres === undefined ? await checkHome(stoa) : undefined;
      const checks = { postgres: store ?? shownCheck(postgres), redis: store ?? shownCheck(redis) };
      const status =
        checks.postgres.status === 'pass' && checks.redis.status === 'pass'
          ? ('healthy' as const)
          : ('degraded' as const);
      return answer(status === 'healthy' ? 200 : 503, {
        status,
        version,
        checks,
        timestamp: new Date().toISOString(),
      });
    },
  },
);

function shownCheck(
  { status, latencyMs, message }: HealthCheck = { status: 'pass' },
): z.output<typeof checkSchema> {
  return {
    status,
    ...(latencyMs !== undefined && { latency: `${latencyMs.toFixed(2)}ms` }),
    ...(message !== undefined && { message }),
  };
}

export const healthRoutes = routesOf(
  'probes',
  probes,
  {
    live: { query: anyQuery, answers: { 200: probeSchema } },
    ready: { query: anyQuery, answers: { 200: probeSchema, 503: probeSchema } },
  },
  {
    live: () => ({ status: 'ok' as const }),
    ready: async ({ stoa, request }) => {
      if (request.server.stoaServer.isStopping()) return answer(503, { status: 'stopping' as const });
      const { writes, degraded } = await stoa.home.operations.readiness();
      const parts = Object.keys(degraded);
      if (writes === 'ok')
        return { status: 'ok' as const, ...(parts.length > 0 && { degraded: parts, reasons: degraded }) };
      return answer(503, { status: writes === 'stopped' ? ('writes_stopped' as const) : writes });
    },
  },
);

async function checkHome({ home }: Stoa): Promise<z.output<typeof checkSchema>> {
  const startedMs = performance.now();
  try {
    await home.operations.check();
  } catch (error) {
    return { status: 'fail', message: messageOf(error) };
  }
  return { status: 'pass', latency: `${(performance.now() - startedMs).toFixed(2)}ms` };
}
