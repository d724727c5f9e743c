/** The status of a home says what its databases promise. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { openStoa } from '../../src/index.js';
import { sharedServer } from '../servers/shared.js';

const home = { data: 'unused', engine: 'memory', onError: () => undefined } as const;

async function documentsOf(datastore?: string) {
  const stoa = await openStoa({ ...home, ...(datastore !== undefined && { datastore }) });
  try {
    const { capabilities } = await stoa.operations.status();
    return capabilities.documents;
  } finally {
    await stoa.close();
  }
}

test('documents in the home change together, and with their changes', async () => {
  expect(await documentsOf()).toEqual({
    backend: 'directory',
    atomic_batches: true,
    changes: 'same-commit',
    lists_lag: false,
  });
});

test('documents in CouchDB change one by one, and their changes come after them', async () => {
  const { url } = await sharedServer('couchdb');
  const couchdb = `${url.replace(/^http/, 'couchdb')}/status_${randomUUID()}`;
  expect(await documentsOf(couchdb)).toEqual({
    backend: 'couchdb',
    atomic_batches: false,
    changes: 'after-write',
    lists_lag: false,
  });
});
