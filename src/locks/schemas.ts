/** The shapes of locks in requests and answers. */
import { z } from 'zod';

export const acquireLockSchema = z
  .strictObject({
    ttl: z
      .number()
      .positive()
      .optional()
      .meta({ description: 'Seconds until the lock ends, unless it is renewed.' }),
    note: z.string().optional().meta({ description: 'Why it is held; other agents see it.' }),
    if_fence: z
      .int()
      .min(1)
      .optional()
      .meta({ description: 'Renew only the acquisition with this number; `fenced` if it is over.' }),
    if_free: z.boolean().optional().meta({ description: 'Refuse also if the caller itself holds the lock.' }),
    wait: z
      .number()
      .min(0)
      .optional()
      .meta({ description: 'Seconds to wait for a lock that another holds.' }),
  })
  .meta({ id: 'AcquireLock' });

export type AcquireLockInput = z.input<typeof acquireLockSchema>;

const time = z.iso.datetime();

export const lockSchema = z
  .object({
    name: z.string(),
    holder: z.string().meta({ description: 'The agent that holds it, or the user if no agent was named.' }),
    fence: z.int().meta({ description: 'Grows with every acquisition; the same while it is renewed.' }),
    note: z.string(),
    acquired_at: time,
    renewed_at: time,
    expires_at: time,
  })
  .meta({ id: 'Lock' });

export type LockAnswer = z.output<typeof lockSchema>;

export interface ReleaseLockInput {
  if_fence?: number | undefined;
  force?: boolean | undefined;
}

export interface ReleaseLockAnswer {
  /** False if no agent held the lock. */
  released: boolean;
}
