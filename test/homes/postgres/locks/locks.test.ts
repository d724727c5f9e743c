/** The conformance suite of locks on PostgreSQL. */
import * as vitest from 'vitest';
import { PostgresHome } from '../../../../src/homes/postgres/home.js';
import { locksConformance } from '../../../../src/locks/conformance/index.js';
import { openLocks } from '../../../locks/open-locks.js';
import { sharedHome } from '../../../servers/shared.js';

locksConformance(vitest, {
  name: 'PostgreSQL',
  open: async (limits = {}) =>
    openLocks(
      {
        options: (await sharedHome()).options,
        sweep: async ({ home }) => {
          if (!(home instanceof PostgresHome)) throw new Error(`The home is ${home.name}.`);
          await home.registry.sweep(home.writer);
          await home.locks.sweep(home.writer);
        },
      },
      limits,
    ),
});
