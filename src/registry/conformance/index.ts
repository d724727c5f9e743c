/** The conformance suite of the registry: what every home must do. */
import type { TestRunner } from '../../core/test-runner.js';
import type { RegistryTarget } from './bench.js';
import { agentTests } from './agents.js';
import { callerTests } from './callers.js';
import { idlenessTests } from './idleness.js';
import { leaseTests } from './leases.js';
import { listTests } from './lists.js';
import { modelTests } from './model.js';
import { sessionTests } from './sessions.js';
import { stateTests } from './states.js';
import { userTests } from './users.js';
import { writeTests } from './writes.js';

export { type OpenRegistry, type RegistryBench, type RegistryTarget, startMs } from './bench.js';

export function registryConformance(runner: TestRunner, target: RegistryTarget): void {
  agentTests(runner, target);
  callerTests(runner, target);
  stateTests(runner, target);
  leaseTests(runner, target);
  idlenessTests(runner, target);
  sessionTests(runner, target);
  listTests(runner, target);
  userTests(runner, target);
  writeTests(runner, target);
  modelTests(runner, target);
}
