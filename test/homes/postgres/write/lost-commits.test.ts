/** The connection is lost between COMMIT and its answer: what was stored is not known. */
import { expect, it } from 'vitest';
import { StoaError } from '../../../../src/core/errors.js';
import { makePlace, makeTasks, userCaller } from '../../../../src/workspaces/conformance/bench.js';
import { startGate } from '../../../servers/gate.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { eventually } from '../../../until.js';
import { openPostgresBench } from '../workspaces/fixture.js';

it('claims that shared a transaction whose COMMIT was not answered are not made a second time', async () => {
  const { url } = await sharedPostgres();
  let isLosing = false;
  const gate = await startGate(url, {
    rewrite: (answer) => {
      if (!isLosing || !answer.includes('COMMIT')) return answer;
      gate.reset();
      return Buffer.alloc(0);
    },
  });
  const bench = await openPostgresBench({}, new URL(gate.url), undefined, () => undefined);
  try {
    const ada = userCaller('ada');
    const { projectId, sessionId } = await makePlace(bench.service, ada);
    const claims = 12;
    await makeTasks(bench.service, ada, sessionId, 3 * claims);
    // The tasks are numbered in the feed, so nothing else commits below.
    await bench.changes();
    isLosing = true;
    const outcomes = await Promise.allSettled(
      Array.from({ length: claims }, (_, index) =>
        bench.service.claimTask({ ...ada, agent: `agent-${index}` }, projectId),
      ),
    );
    isLosing = false;
    const codes = outcomes.map((outcome) =>
      outcome.status === 'rejected' && outcome.reason instanceof StoaError ? outcome.reason.code : outcome,
    );
    expect(new Set(codes)).toEqual(new Set(['backend_unavailable']));
    // The connections that were lost are opened again.
    await eventually(async () => {
      const { items } = await bench.service.listTasks(ada, {
        project: projectId,
        status: 'running',
        limit: 100,
      });
      expect(items.length).toBeGreaterThan(1);
      expect(items.length).toBeLessThanOrEqual(claims);
    });
  } finally {
    await bench.close();
    await gate.close();
  }
});
