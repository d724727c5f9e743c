/** One commit across all domains. */
import { commitAnswerSchema, commitSchema } from '../../commit/schemas.js';
import { authenticated, defineRoute } from '../route.js';

export const commitRoutes = [
  defineRoute({
    method: 'POST',
    path: '/v1/commit',
    summary: 'Does several operations, of any domain, all or none',
    description:
      'Every check must hold at the moment of the commit. A conflict is an answer with `ok: false` that names the check or operation; input that could never be right is an error. On PostgreSQL a message is delivered right after the commit: one that still waits is `{queued: true, delivery}`.',
    tags: ['commit'],
    principals: authenticated,
    creates: true,
    body: commitSchema,
    answers: { 200: commitAnswerSchema },
    handler: ({ stoa, caller, body, idempotency }) => stoa.commit.commit(caller, body, idempotency),
  }),
];
