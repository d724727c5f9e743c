/** `Stoa-Fence` at the door: of whose lease it speaks, and whether it comes too late. */
import { StoaError } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import type { RegistryService } from '../registry/service.js';
import type { Route } from './route.js';

/** These name an agent themselves, and check the number in the transaction that writes. */
const namesAgent = /^\/v1\/(agents\/|commit$)/;

/**
 * Refuses a late writer in every domain. A number that could speak of no lease is refused too: to
 * overlook it would leave a writer believing that it is guarded.
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
    "Stoa-Fence is a number of an agent's lease, and nothing here says which agent's.",
    {
      fix: 'Sign the request as the agent, or send POST /v1/commit with the check "lease".',
    },
  );
}
