/** Searches by meaning in PostgreSQL, without pgvector. */
import { vectorSuite } from '../../find/vectors/suite.js';
import { sharedHome } from '../../servers/shared.js';

vectorSuite({
  isShared: true,
  open: async () => (await sharedHome()).options,
});
