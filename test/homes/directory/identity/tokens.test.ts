/** Tokens in a data directory. */
import { limitsWith } from '../../../../src/core/settings/limits.js';
import { directoryFamilies } from '../../../../src/homes/directory/families.js';
import { DirectoryIdentity } from '../../../../src/homes/directory/identity/identity.js';
import { openKernel } from '../../../../src/homes/directory/kernel/open-kernel.js';
import { DirectoryWriter } from '../../../../src/homes/directory/writer.js';
import { IdentityService } from '../../../../src/identity/service.js';
import { hashToken, newOperatorToken } from '../../../../src/identity/tokens.js';
import { GatedIdentity, describeTokens } from '../../../identity/token-suite.js';

describeTokens('a data directory', async (given) => {
  const clock = { nowMs: 1_768_473_000_000 };
  const limits = limitsWith(given);
  const kernel = await openKernel({
    dataDir: '',
    engine: 'memory',
    families: directoryFamilies,
    limits,
    clock: () => clock.nowMs,
  });
  const port = new GatedIdentity(new DirectoryIdentity(kernel, (id) => identity.forget(id)));
  const identity: IdentityService = new IdentityService({
    writer: new DirectoryWriter(kernel),
    port,
    limits,
    operatorTokenHashes: () => [hashToken(newOperatorToken())],
    nowMs: () => kernel.nowMs(),
    onError: (error) => {
      throw error;
    },
  });
  return {
    identity,
    port,
    clock,
    sweep: async () => {
      await kernel.sweep();
    },
    dump: async () =>
      kernel.root.families
        .flatMap((family) =>
          Array.from(kernel.root.range(family, {}), ({ value }) => value.toString('latin1')),
        )
        .join('\n'),
    close: () => kernel.close(),
  };
});
