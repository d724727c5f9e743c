/** The schemas of the operations of advisory locks. */
import { z } from 'zod';
import { acquireLockSchema, lockSchema } from '../../locks/schemas.js';
import { pageOf, pageQuery, pathSegment, queryBoolean, queryInteger } from '../fields.js';
import type { SchemasOf } from '../operation.js';
import type { locks } from './operations.js';

const ofLock = z.object({ name: pathSegment });

export const lockSchemas = {
  list: {
    query: z.object({
      prefix: z.string().max(4_096).optional().meta({ description: 'Only names that begin with it.' }),
      ...pageQuery,
    }),
    answers: { 200: pageOf(lockSchema) },
  },
  acquire: {
    description:
      'A lock is a lease on a name, such as a path: it ends at `expires_at`, and when the agent that ' +
      'holds it is lost or forgotten. The same holder renews it and keeps the fence (200). A lock of ' +
      'another holder is a 409 whose details name the holder and when the lock ends.',
    params: ofLock,
    body: acquireLockSchema.default({}),
    answers: { 200: lockSchema, 201: lockSchema },
  },
  release: {
    description: '`released` is false if no agent held the lock. A lock of another holder is a 409.',
    params: ofLock,
    query: z.object({
      if_fence: queryInteger(1).optional().meta({ description: 'Only if the lock has this number.' }),
      force: queryBoolean()
        .optional()
        .meta({ description: 'Also a lock of another holder. Not for signed agents.' }),
    }),
    answers: { 200: z.object({ released: z.boolean() }) },
  },
} satisfies SchemasOf<typeof locks>;
