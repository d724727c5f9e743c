/** Examples of the change feed and of the commit. */
import type { ExamplesOf } from '../example.js';

const task = 'task_fa233615-e947-45ba-b800-549a42dc25f5';

export const changeExamples: ExamplesOf<'changes'> = {
  read: {
    request: { back: 20, topics: 'data' },
    answer: {
      items: [
        {
          seq: 41,
          at: '2026-01-31T09:05:00.000Z',
          domain: 'data',
          kind: 'document.set',
          id: 'notes/~ZGVjaXNpb25zL2RhdGFiYXNl',
          user: 'ada',
          agent: 'builder',
          version: 2,
          facts: { namespace: 'notes', key: 'decisions/database' },
        },
      ],
      next_cursor: null,
      position: '5f0c2a9be714-41',
      since: '5f0c2a9be714-21',
    },
    client: "await stoa.changes.read({ topics: ['data'], limit: 20 })",
  },
};

export const commitExamples: ExamplesOf<'commits'> = {
  create: {
    request: {
      checks: [{ check: 'data', namespace: 'notes', key: 'release', version: null }],
      operations: [
        { op: 'data.set', namespace: 'notes', key: 'release', value: { version: '1.4.0' } },
        { op: 'task.complete', task_id: task, fence: 7, output: 'Released 1.4.0.' },
      ],
    },
    answer: {
      ok: true,
      results: [
        { key: 'release', version: 1 },
        { id: task, status: 'completed' },
      ],
      position: '5f0c2a9be714-42',
    },
    client: `await stoa.commit({
  checks: [{ check: 'data', namespace: 'notes', key: 'release', version: null }],
  operations: [
    { op: 'data.set', namespace: 'notes', key: 'release', value: { version: '1.4.0' } },
    { op: 'task.complete', task_id: '${task}', fence: 7, output: 'Released 1.4.0.' },
  ],
})`,
  },
};
