/** Checks `Stoa-Fence` before the handler runs: which agent's lease it is for, and whether it is outdated. */
import { StoaError } from '../../core/errors.js';
import type { Caller } from '../../core/caller.js';
import type { RegistryService } from '../../registry/service.js';
import type { Route } from '../route.js';

/** These routes name an agent in the request, and check the fence in the transaction that writes. */
const namesAgent = /^\/v1\/(agents\/|commit$)/;

/**
 * Refuses an outdated writer in every domain. A fence without an agent is refused too: ignoring it
 * would leave the writer unprotected without its knowledge.
 */
export async function checkFence(
  { method, path }: Route,
  caller: Caller,
  registry: RegistryService,
): Promise<void> {
  if (method === 'GET') return;
  await registry.checkFence(caller);
  if (caller.agentId !== null || namesAgent.test(path)) return;
  throw new StoaError(
    'invalid_request',
    'The request has Stoa-Fence but does not name the agent whose lease it belongs to.',
    { fix: 'Sign the request as the agent, or send POST /v1/commit with the check "lease".' },
  );
}
