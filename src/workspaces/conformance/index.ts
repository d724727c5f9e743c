/** The conformance suite of workspaces: what every home must do. */
import type { TestRunner } from '../../core/test-runner.js';
import type { OpenBench } from './bench.js';
import { claimTests } from './claims.js';
import { deletionTests } from './deletion.js';
import { dependencyTests } from './dependencies.js';
import { labelTests } from './labels.js';
import { questionTests } from './questions.js';
import { scheduleTests } from './schedule.js';
import { secretTests } from './secrets.js';
import { sessionTests } from './sessions.js';
import { taskRuleTests } from './task-rules.js';
import { taskTests } from './tasks.js';
import { workspaceTests } from './workspaces.js';
import { writeTests } from './writes.js';

export type { Bench, ChangeSeen, OpenBench } from './bench.js';

/** Opens a home for each group of tests; a home opened twice must not share anything. */
export function workspacesConformance(
  runner: TestRunner,
  { name, open }: { name: string; open: OpenBench },
): void {
  workspaceTests(runner, name, open);
  deletionTests(runner, name, open);
  secretTests(runner, name, open);
  sessionTests(runner, name, open);
  taskTests(runner, name, open);
  taskRuleTests(runner, name, open);
  claimTests(runner, name, open);
  labelTests(runner, name, open);
  scheduleTests(runner, name, open);
  questionTests(runner, name, open);
  dependencyTests(runner, name, open);
  writeTests(runner, name, open);
}
