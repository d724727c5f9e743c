/** The conformance suite of the registry on PostgreSQL. */
import * as vitest from 'vitest';
import { registryConformance } from '../../../../src/registry/conformance/index.js';
import { openPostgresRegistryBench } from './open-registry.js';

registryConformance(vitest, {
  name: 'PostgreSQL',
  open: (limits = {}) => openPostgresRegistryBench({ limits }),
  histories: 10,
});
