/** Examples of the search. */
import type { ExamplesOf } from '../example.js';

const excerpt = 'PostgreSQL, because two servers share the state';

const page = {
  items: [
    {
      kind: 'data',
      namespace: 'notes',
      key: 'decisions/database',
      score: 0.82,
      excerpt,
      marks: [[24, 31]] as [number, number][],
      author: 'scout',
      time: '2026-01-31T09:05:00.000Z',
      version: 2,
    },
  ],
  next_cursor: null,
  examined_all: true,
} as const;

const items = [...page.items];

export const findExamples: ExamplesOf<'find'> = {
  search: {
    request: { q: 'which database do the servers share', in: ['data'], limit: 5 },
    answer: { ...page, items },
    client: "await stoa.find('which database do the servers share', { in: ['data'], limit: 5 })",
    command: 'stoa find which database do the servers share --in data',
  },
  query: {
    request: { q: 'database servers', namespace: 'notes', filter: { choice: 'PostgreSQL' } },
    answer: { ...page, items },
    client: "await stoa.find('database servers', { namespace: 'notes', filter: { choice: 'PostgreSQL' } })",
    command: `stoa find database servers --filter '{"choice": "PostgreSQL"}'`,
  },
  reindex: {
    request: { namespace: 'notes' },
    answer: { filed: 120, removed: 0 },
    command: 'stoa reindex --namespace notes',
  },
};
