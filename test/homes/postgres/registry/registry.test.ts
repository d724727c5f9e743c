/** The conformance suite of the registry on PostgreSQL. */
import * as vitest from 'vitest';
import { registryConformance } from '../../../../src/registry/conformance/index.js';
import { emptyPostgres } from '../../../servers/shared.js';
import { emptyTables, openPostgresRegistryBench } from './open-registry.js';

let url: URL | undefined;

registryConformance(vitest, {
  name: 'PostgreSQL',
  open: async (limits = {}) => {
    url ??= new URL((await emptyPostgres()).url);
    const bench = await openPostgresRegistryBench({ limits, url });
    await emptyTables(bench.sql);
    return bench;
  },
  histories: 10,
});
