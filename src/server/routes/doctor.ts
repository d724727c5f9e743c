/** The doctor: looks through every family for rows that do not fit each other, and mends them when asked. */
import { z } from 'zod';
import { embeddedChecks } from '../../backends/embedded/doctor.js';
import { examineAll } from '../../kernel/doctor.js';
import { defineRoute, operatorOnly } from '../route.js';

const findingSchema = z
  .object({
    shard: z.int(),
    family: z.string(),
    key: z.string().describe('In hexadecimal'),
    kind: z.enum(['missing', 'dangling', 'duplicate', 'wrong', 'unreadable']),
    problem: z.string(),
    repair: z.string().nullable().describe('What mending does; null where only a backup helps'),
    repaired: z.boolean(),
  })
  .meta({ id: 'Finding' });

export const doctorRoutes = [
  defineRoute({
    method: 'POST',
    path: '/v1/doctor',
    summary: 'Look for damage in the indexes, and mend it',
    description: 'Works while the store is in use. Every damage is counted; only the first ones are listed.',
    tags: ['operations'],
    principals: operatorOnly,
    body: z
      .strictObject({ repair: z.boolean().default(false) })
      .default({ repair: false })
      .meta({ id: 'Examine' }),
    answers: {
      200: z
        .object({ found: z.int(), repaired: z.int(), remaining: z.int(), findings: z.array(findingSchema) })
        .meta({ id: 'Examination' }),
    },
    handler: async ({ stoa, body: { repair } }) => {
      const findings: z.output<typeof findingSchema>[] = [];
      let [found, repaired] = [0, 0];
      for await (const finding of examineAll(stoa.kernel.stores, embeddedChecks(stoa.kernel), { repair })) {
        found += 1;
        if (finding.repaired) repaired += 1;
        if (findings.length < stoa.limits.doctorFindingsMax) findings.push(finding);
      }
      return { found, repaired, remaining: found - repaired, findings };
    },
  }),
];
