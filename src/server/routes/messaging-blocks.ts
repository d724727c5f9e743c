/** Blocked addresses, for the operator. */
import { z } from 'zod';
import { StoaError } from '../../errors.js';
import { answer, defineRoute, operatorOnly } from '../route.js';
import { secondsIso } from './messaging-wire.js';

const blockSchema = z
  .object({ ip: z.string(), reason: z.string(), expires_at: z.string() })
  .meta({ id: 'Block' });

export const blockRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/blocks',
    summary: 'Addresses that are blocked for running into rate limits',
    tags: ['operations'],
    principals: operatorOnly,
    answers: { 200: z.object({ items: z.array(blockSchema), next_cursor: z.null() }) },
    handler: async ({ stoa }) => {
      const blocks = await stoa.messaging.gate.blocks();
      return {
        items: blocks.map(({ address, reason, expiresAtMs }) => ({
          ip: address,
          reason,
          expires_at: secondsIso(expiresAtMs),
        })),
        next_cursor: null,
      };
    },
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/blocks',
    summary: 'Unblock an address',
    tags: ['operations'],
    principals: operatorOnly,
    query: z.object({ ip: z.string().min(1).max(100) }),
    answers: { 204: null },
    handler: async ({ stoa, query }) => {
      if (!(await stoa.messaging.gate.unblock(query.ip)))
        throw new StoaError('not_found', 'This address is not blocked.');
      return answer(204);
    },
  }),
];
