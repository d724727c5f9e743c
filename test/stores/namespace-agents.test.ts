import { expect, test } from 'vitest';
import { limitsWith } from '../../src/core/settings/limits.js';
import { NamespaceAgents } from '../../src/stores/namespace-agents.js';

test('a bounded number of agents waits while the store refuses them', async () => {
  const stored = new Set<string>();
  let refuses = true;
  const agents = new NamespaceAgents(
    {
      add: async (_scope, names) => {
        if (refuses) throw new Error('refused');
        for (const name of names) stored.add(name);
      },
      remove: async () => undefined,
    },
    { limits: limitsWith({}), nowMs: Date.now },
  );
  const scopes = ['a', 'b'].map((namespace) => ({ user: 'ada', namespace }));
  const names = Array.from({ length: 8_000 }, (_, index) => `agent-${index}`);
  for (const scope of scopes)
    await agents.seen(
      scope,
      names.map((name) => `${scope.namespace} ${name}`),
    );
  refuses = false;
  await agents.flush();
  expect(stored.size).toBe(10_000);
  await agents.seen({ user: 'ada', namespace: 'b' }, ['b late']);
  expect(stored.has('b late')).toBe(true);
});
