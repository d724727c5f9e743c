/** Removes an agent that was away for too long. */
import { operatorCaller } from '../../core/caller.js';
import { StoaError } from '../../core/errors.js';
import { type Writer, writeOne } from '../../core/write.js';
import type { RegistryPort } from '../port.js';

const noGuard = { fence: null };

/** In separate writes. An agent that is present again, or was removed in the meantime, is not changed. */
export async function forgetAgent(writer: Writer, port: RegistryPort, agentId: string): Promise<void> {
  const request = { caller: operatorCaller() };
  try {
    while (await writeOne(writer, request, port.deleteSomeSessions(null, agentId, noGuard, true)));
    await writeOne(writer, request, port.deleteAgent(null, agentId, noGuard, true));
  } catch (error) {
    const isOver = error instanceof StoaError && (error.code === 'not_found' || error.code === 'conflict');
    if (!isOver) throw error;
  }
}
