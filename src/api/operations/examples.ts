/** Examples of the operator's operations. */
import type { ExamplesOf } from '../example.js';

const backup = {
  name: '20260131T090000Z-full',
  directory: '/var/backups/stoa',
  kind: 'full',
  parent: null,
  store: 'cc25383a-bbc6-4026-82e3-98803d379299',
  taken_at: '2026-01-31T09:00:00.000Z',
  position: '5f0c2a9be714-41',
  size_bytes: 204_800,
  with_key: false,
  reason: null,
} as const;

const record = JSON.stringify({ type: 'document', user: 'ada', namespace: 'notes', key: 'greeting' });

export const serverExamples: ExamplesOf<'server'> = {
  status: {
    request: {},
    answer: {
      version: '0.1.0',
      node: 'v20.19.0',
      store_id: backup.store,
      engine: 'lmdb',
      shards: 1,
      sync_writes: true,
      uptime_seconds: 3_600,
      writes: 'ok',
      position: '5f0c2a9be714-41',
      feed_bytes: 8_192,
      expiry_backlog_ms: 0,
      streams: 2,
      outbox: { waiting: 0, oldest_waiting_seconds: 0, undeliverable: 0 },
      capabilities: {
        documents: { backend: 'directory', atomic_batches: true, changes: 'same-commit', lists_lag: false },
        messages: {
          durable: true,
          about: 'A message, its index rows, its counters and its change are one commit.',
        },
      },
      embedding: {
        model: null,
        dimensions: null,
        search: 'vectors are compared one by one, and by usearch in namespaces with more than 5,000',
        waiting: 0,
        oldest_waiting_seconds: 0,
        failing: null,
      },
      size_bytes: 204_800,
      families: { 'registry/agents': { entries: 2, size_bytes: 1_024, estimated: false } },
      servers: [],
    },
    command: 'stoa status',
  },
  config: {
    request: {},
    answer: {
      items: [
        { name: 'port', value: 7862, origin: 'default', about: 'The port on which the server listens' },
      ],
      next_cursor: null,
    },
  },
  examine: {
    request: { repair: false },
    answer: { found: 0, repaired: 0, remaining: 0, findings: [] },
    command: 'stoa doctor',
  },
  listFamilies: {
    request: {},
    answer: {
      items: [{ family: 'registry/agents', entries: 2, size_bytes: 1_024, estimated: false }],
      next_cursor: null,
    },
    command: 'stoa inspect',
  },
  listEntries: {
    request: { family: 'registry/agents', limit: 1 },
    answer: {
      items: [{ key: '3608e4bd', value: '82a46e61', decoded: { name: 'scout' } }],
      next_cursor: null,
    },
    command: 'stoa inspect registry/agents --limit 1',
  },
  rekey: { request: {}, answer: { key_id: 'k2', resealed: { workspaces: 1, projects: 0 } } },
  export: {
    request: { domains: ['data'], with_secrets: false },
    client: "for await (const bytes of stoa.admin.export({ domains: ['data'] })) file.write(bytes)",
    command: 'stoa export data.ndjson --domains data',
  },
  import: {
    request: { dry_run: true, ids: 'keep', on_conflict: 'skip', keep_going: false },
    lines: [record],
    answer: {
      dry_run: true,
      records: 1,
      written: 1,
      replaced: 0,
      same: 0,
      skipped: 0,
      conflicts: [],
      conflicts_total: 0,
      bad: [],
      bad_total: 0,
    },
    client: "await stoa.admin.import(lines, { dry_run: true, on_conflict: 'skip' })",
    command: 'stoa import data.ndjson --dry-run --on-conflict skip',
  },
};

export const backupExamples: ExamplesOf<'backups'> = {
  list: {
    request: { directory: backup.directory },
    answer: { items: [backup], next_cursor: null, unreadable: [] },
    command: 'stoa backup ls /var/backups/stoa',
  },
  create: {
    request: { kind: 'full', directory: backup.directory },
    answer: { ...backup, not_included: [] },
    command: 'stoa backup --full /var/backups/stoa',
  },
  verify: {
    request: { directory: backup.directory },
    answer: { items: [{ name: backup.name, kind: 'full', ok: true, reason: null }], next_cursor: null },
    command: 'stoa backup verify /var/backups/stoa',
  },
};

export const blockExamples: ExamplesOf<'blocks'> = {
  list: {
    request: {},
    answer: {
      items: [{ ip: '203.0.113.7', reason: 'too many requests', expires_at: '2026-01-31T10:00:00.000Z' }],
      next_cursor: null,
    },
  },
  delete: { request: { ip: '203.0.113.7' } },
};
