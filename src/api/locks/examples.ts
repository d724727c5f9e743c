/** Examples of advisory locks. */
import type { ExamplesOf } from '../example.js';

const lock = {
  name: 'src/app.ts',
  holder: 'scout',
  fence: 3,
  note: 'Moving the routes',
  acquired_at: '2026-01-31T09:00:00.000Z',
  renewed_at: '2026-01-31T09:00:00.000Z',
  expires_at: '2026-01-31T09:15:00.000Z',
};

export const lockExamples: ExamplesOf<'locks'> = {
  list: { request: { prefix: 'src/' }, answer: { items: [lock], next_cursor: null } },
  acquire: {
    request: { name: 'src/app.ts', ttl: 900, note: 'Moving the routes' },
    answer: lock,
    command: 'stoa lock src/app.ts --ttl 15m --agent scout',
  },
  release: { request: { name: 'src/app.ts', if_fence: 3 }, answer: { released: true } },
};
