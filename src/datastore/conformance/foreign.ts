/** Conformance: documents that another program wrote, whole stores, and a database that goes away. */
import assert from 'node:assert/strict';
import { operatorCaller } from '../../core/caller.js';
import { documentId } from '../documents/document-id.js';
import type { DocumentRecord } from '../model.js';
import { fromSeedFields } from '../documents/seed-document.js';
import { eventually } from '../../core/test-runner.js';
import { type ConformanceContext, type RegisterTest, refusedWith } from './context.js';

export function foreignTests(test: RegisterTest, context: ConformanceContext): void {
  test('a document without the optional fields is read, written and counted like any other', async () => {
    const data = await context.service();
    const user = context.newUser();
    const fields = {
      userId: user,
      namespace: 'cache:github',
      key: 'repos',
      value: [{ stars: 100 }],
      createdAt: '2026-02-05T12:00:00',
      updatedAt: '2026-02-05T12:00:00.123456',
    };
    await (context.target.putForeign?.({ _id: documentId(user, 'cache:github', 'repos'), ...fields }) ??
      data.transfer.write(operatorCaller(), [fromSeedFields(fields)]));
    const entry = await data.getEntry(context.caller(user), 'cache:github', 'repos');
    assert.ok(entry !== undefined);
    assert.deepEqual(entry.value, [{ stars: 100 }]);
    assert.equal(entry.createdAt, '2026-02-05T12:00:00Z');
    assert.equal(entry.updatedAt, '2026-02-05T12:00:00.123456Z');
    assert.deepEqual(
      [
        entry.metadata,
        entry.createdByAgent,
        entry.lastAccessedByAgent,
        entry.accessCount,
        entry.lastAccessedAt,
        entry.version,
      ],
      [{}, null, null, 0, null, 1],
    );
    const page = await data.listKeys(context.caller(user), 'cache:github');
    assert.deepEqual(page.items, [
      { key: 'repos', version: 1, sizeBytes: 15, updatedAt: '2026-02-05T12:00:00.123456Z' },
    ]);
    assert.equal((await data.listNamespaces(context.caller(user))).items[0]?.count, 1);
    await data.get(context.caller(user, 'reader'), 'cache:github', 'repos');
    await data.tracker.flush();
    await data.set(context.caller(user, 'writer'), 'cache:github', 'repos', [], {
      metadata: { a: 1 },
      ifVersion: 1,
    });
    const after = await data.getEntry(context.caller(user), 'cache:github', 'repos');
    assert.deepEqual(
      [after?.createdAt, after?.createdByAgent, after?.accessCount, after?.version, after?.metadata],
      ['2026-02-05T12:00:00Z', null, 1, 2, { a: 1 }],
    );
  });

  test('documents are restored exactly, and exported as they are', async () => {
    const data = await context.service();
    const user = context.newUser();
    const documents = Array.from({ length: 25 }, (_, index): DocumentRecord => ({
      userId: user,
      namespace: index % 2 === 0 ? 'even' : 'odd:ns',
      key: `key/${index}`,
      valueJson: JSON.stringify({ index, nested: [[1]] }),
      metadata: index % 3 === 0 ? {} : { index },
      createdByAgent: index % 4 === 0 ? null : 'maker',
      updatedByAgent: index % 5 === 0 ? null : 'changer',
      lastAccessedByAgent: index % 4 === 0 ? null : 'reader',
      accessCount: index,
      createdAt: '2026-02-01T10:30:00Z',
      updatedAt: '2026-02-05T14:22:00.123456Z',
      lastAccessedAt: index % 4 === 0 ? null : '2026-02-05T14:30:00.5Z'.replace('.5Z', '.500Z'),
      version: index + 1,
      expiresAt: index % 5 === 0 ? '2999-01-01T00:00:00.000Z' : null,
    }));
    await data.transfer.write(operatorCaller(), documents);
    await data.transfer.write(operatorCaller(), documents.slice(0, 5));
    const exported = new Map<string, DocumentRecord>();
    let after: string | null = null;
    do {
      const page = await data.port.exportPage(after, 7);
      for (const record of page.documents) if (record.userId === user) exported.set(record.key, record);
      after = page.after;
    } while (after !== null);
    assert.deepEqual(
      documents.map(({ key }) => exported.get(key)),
      documents,
    );
    const summaries = (await data.listNamespaces(context.caller(user))).items;
    assert.deepEqual(
      summaries.map(({ namespace, count }) => [namespace, count]),
      [
        ['even', 13],
        ['odd:ns', 12],
      ],
    );
  });

  test('an unreachable database is a clear error, and works again without a restart', async () => {
    const { outage } = context.target;
    if (outage === undefined) return;
    const data = await context.service();
    const user = context.newUser();
    const [caller, agent] = [context.caller(user), context.caller(user, 'agent')];
    await data.set(caller, 'n', 'k', 1);
    await data.get(agent, 'n', 'k');
    await outage.stop();
    try {
      await refusedWith('backend_unavailable', () => data.get(caller, 'n', 'k'));
      await refusedWith('backend_unavailable', () => data.set(caller, 'n', 'k', 2));
      await refusedWith('backend_unavailable', () => data.listKeys(caller, 'n'));
      await data.tracker.flush();
    } finally {
      await outage.start();
    }
    await eventually(
      () =>
        data.set(caller, 'n', 'k', 3).then(
          () => 'written',
          (error: Error) => error.message,
        ),
      (outcome) => outcome === 'written',
    );
    await data.tracker.flush();
    assert.equal((await data.getEntry(caller, 'n', 'k'))?.accessCount, 1);
  });
}
