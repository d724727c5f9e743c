/** The schemas of the console's operations. */
import { z } from 'zod';
import { tokenScopesSchema } from '../../identity/schemas.js';
import type { SchemasOf } from '../operation.js';
import type { consoleOperations } from './operations.js';

const time = z.iso.datetime();

const sessionSchema = z
  .object({
    kind: z.enum(['operator', 'user', 'agent']),
    user: z.string().describe('The user whose data is shown; for the operator the user named in `Stoa-User`'),
    scopes: tokenScopesSchema,
    expires_at: time.nullable(),
    version: z.string().describe('The version of the server'),
  })
  .meta({ id: 'ConsoleSession' });

export const consoleSchemas = {
  createLink: {
    description:
      'The code is in the fragment of the link, which browsers never send. It can be used once, and ' +
      'expires after `consoleLinkSeconds`.',
    answers: {
      200: z
        .object({
          path: z.string().describe('The path and the fragment of the link on this server'),
          expires_at: time,
        })
        .meta({ id: 'ConsoleLink' }),
    },
  },
  signIn: {
    body: z.strictObject({ code: z.string().min(1).max(200) }).meta({ id: 'ConsoleSignIn' }),
    answers: {
      200: sessionSchema.extend({ token: z.string() }).meta({ id: 'StartedConsoleSession' }),
    },
  },
  session: { answers: { 200: sessionSchema } },
  signOut: { answers: { 204: null } },
} satisfies SchemasOf<typeof consoleOperations>;
