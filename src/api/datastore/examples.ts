/** Examples of the data store's operations. */
import type { ExamplesOf } from '../example.js';

const place = { namespace: 'notes', key: 'decisions/database' } as const;
const value = { choice: 'PostgreSQL', because: 'two servers share the state' };

const document = {
  _id: 'ada:notes:ZGVjaXNpb25zL2RhdGFiYXNl',
  userId: 'ada',
  ...place,
  value,
  metadata: { source: 'standup' },
  createdByAgent: 'scout',
  updatedByAgent: 'builder',
  lastAccessedByAgent: 'builder',
  accessCount: 2,
  createdAt: '2026-01-31T09:00:00.000Z',
  updatedAt: '2026-01-31T09:05:00.000Z',
  lastAccessedAt: '2026-01-31T09:06:00.000Z',
  version: 2,
  expiresAt: null,
};

const written = { key: place.key, version: 2, sizeBytes: 65, updatedAt: document.updatedAt };
const counter = { namespace: 'notes', key: 'builds' } as const;

const line = JSON.stringify({
  userId: 'ada',
  namespace: 'notes',
  key: 'greeting',
  value: 'hello',
  createdAt: '2026-01-31T09:00:00.000Z',
});

export const dataExamples: ExamplesOf<'data'> = {
  listNamespaces: {
    request: {},
    answer: {
      items: [
        {
          namespace: 'notes',
          count: 2,
          sizeBytes: 66,
          agents: ['builder', 'scout'],
          updatedAt: document.updatedAt,
        },
      ],
      next_cursor: null,
    },
    client: 'await stoa.data().listNamespaces()',
  },
  getSettings: {
    request: { namespace: 'notes' },
    answer: { index: true, embed: false, embed_fields: null, embedder: null },
    client: "await stoa.data('notes').settings()",
    command: 'stoa data settings notes',
  },
  changeSettings: {
    request: { namespace: 'notes', embed: true },
    answer: {
      index: true,
      embed: true,
      embed_fields: null,
      embedder: { model: 'nomic-embed-text', dimensions: 768 },
    },
    client: "await stoa.data('notes').changeSettings({ embed: true })",
    command: 'stoa data configure notes --embed',
  },
  list: {
    request: { namespace: 'notes', prefix: 'decisions/', limit: 10 },
    answer: { items: [written], next_cursor: null },
    client: "await stoa.data('notes').listKeys({ prefix: 'decisions/', limit: 10 })",
    command: 'stoa data ls decisions/ -n notes',
  },
  batch: {
    request: {
      namespace: 'notes',
      set: { greeting: 'hello', builds: 1 },
      delete: ['draft'],
      get: ['greeting'],
    },
    answer: {
      set: { greeting: { version: 1 }, builds: { version: 1 } },
      values: { greeting: 'hello' },
      deleted: 1,
    },
    client: "await stoa.data('notes').batch({ set: { greeting: 'hello', builds: 1 }, get: ['greeting'] })",
    command: `stoa data set-many '{"greeting": "hello", "builds": 1}' -n notes`,
  },
  clear: {
    request: { namespace: 'scratch' },
    answer: { deleted: 3 },
    client: "await stoa.data('scratch').clear()",
    command: 'stoa data clear -n scratch --yes',
  },
  get: {
    request: place,
    answer: document,
    client: "await stoa.data('notes').get('decisions/database')",
    command: 'stoa data get decisions/database -n notes',
  },
  set: {
    request: { ...place, value, metadata: { source: 'standup' } },
    answer: written,
    client:
      "await stoa.data('notes').set('decisions/database', { choice: 'PostgreSQL' }, { metadata: { source: 'standup' } })",
    command: `stoa data set decisions/database '{"choice": "PostgreSQL"}' -n notes`,
  },
  change: {
    request: { ...counter, change: { increment: 1 } },
    answer: { key: 'builds', version: 8, sizeBytes: 1, updatedAt: document.updatedAt, value: 8 },
    client: "await stoa.data('notes').increment('builds')",
    command: 'stoa data increment builds -n notes',
  },
  delete: {
    request: place,
    client: "await stoa.data('notes').delete('decisions/database')",
    command: 'stoa data rm decisions/database -n notes',
  },
};

export const documentExamples: ExamplesOf<'documents'> = {
  list: {
    request: { limit: 100 },
    answer: { items: [document], next_cursor: null },
    command: 'stoa export --documents documents.ndjson',
  },
  import: {
    request: { documents: [JSON.parse(line) as Record<string, unknown>], dry_run: true },
    answer: { imported: 1, oversized: [] },
  },
  importLines: {
    request: { dry_run: true, keep_going: false },
    lines: [line],
    answer: {
      dry_run: true,
      lines: 1,
      skipped: 0,
      imported: 1,
      bad: [],
      bad_total: 0,
      oversized: [],
      oversized_total: 0,
    },
    client: 'await stoa.admin.documents.importLines(lines, { dry_run: true })',
    command: 'stoa import --documents documents.ndjson --dry-run',
  },
};
