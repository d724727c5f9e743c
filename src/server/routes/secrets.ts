/** Secrets as a whole: which key encrypts them, and a new one for all. */
import { z } from 'zod';
import { defineRoute, operatorOnly } from '../route.js';

export const secretRoutes = [
  defineRoute({
    method: 'POST',
    path: '/v1/secrets/rekey',
    summary: 'Make a new key and re-encrypt every secret with it',
    description:
      'Old keys stay in the key ring, for backups. Keys that come from the environment are not made here: then everything is re-encrypted with the first of them.',
    tags: ['operations'],
    principals: operatorOnly,
    answers: { 200: z.object({ key_id: z.string(), resealed: z.record(z.string(), z.int()) }) },
    handler: ({ stoa }) => stoa.secrets.rekey(),
  }),
];
