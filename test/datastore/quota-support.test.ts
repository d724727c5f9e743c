/** Quotas on a backend without support for them: refused at the start, never ignored. */
import { expect, test } from 'vitest';
import { openDataBackend } from '../../src/open/datastore.js';
import { openStoa } from '../../src/index.js';
import { limitsWith } from '../../src/core/settings/limits.js';
import { sharedServer } from '../servers/shared.js';

const quotas = ['dataDocumentsPerUserMax', 'dataBytesPerUserMax', 'dataNamespacesPerUserMax'] as const;

test.each(quotas)(
  '%s on a backend without transactions is refused at the start, with a way out',
  async (quota) => {
    const { url } = await sharedServer('couchdb');
    const couchdb = `${url.replace(/^http/, 'couchdb')}/quota_support`;
    for (const place of ['memory://', couchdb]) {
      await expect(
        openDataBackend(place, { limits: limitsWith({ [quota]: 10 }), nowMs: Date.now }),
      ).rejects.toMatchObject({ code: 'unsupported', fix: expect.stringContaining(quota) });
    }
  },
);

test('the server does not start with such a setting', async () => {
  await expect(
    openStoa({
      data: 'unused',
      engine: 'memory',
      datastore: 'memory://',
      limits: { dataDocumentsPerUserMax: 1 },
    }),
  ).rejects.toMatchObject({ code: 'unsupported' });
});
