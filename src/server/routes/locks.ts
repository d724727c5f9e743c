/** The handlers of advisory locks. */
import { locks } from '../../api/locks/operations.js';
import { lockSchemas } from '../../api/locks/schemas.js';
import { disconnectSignal } from '../request/disconnection.js';
import { answer, routesOf } from '../route.js';

export const lockRoutes = routesOf('locks', locks, lockSchemas, {
  list: ({ stoa, caller, query }) => stoa.locks.list(caller, query),
  acquire: async ({ stoa, caller, params, body, reply }) => {
    const { lock, acquired } = await stoa.locks.acquire(caller, params.name, body, disconnectSignal(reply));
    return answer(acquired ? 201 : 200, lock);
  },
  release: ({ stoa, caller, params, query }) => stoa.locks.release(caller, params.name, query),
});
