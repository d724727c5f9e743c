/** The services once more, for the writes of a caller that shows a fencing number. */
import type { DataService } from '../datastore/service.js';
import { faceOf } from '../kernel/joint.js';
import type { Kernel } from '../kernel/kernel.js';
import type { MessagingPort } from '../messaging/port.js';
import type { MessagingService } from '../messaging/service.js';
import type { Sealer } from '../secrets/sealer.js';
import type { WorkspacesPort } from '../workspaces/port.js';
import { WorkspacesService } from '../workspaces/service.js';
import { type FencedCaller, checkFenceFromOutside, fencedKernel } from './embedded/fence.js';
import { EmbeddedMessaging } from './embedded/messaging.js';
import { EmbeddedWorkspaces } from './embedded/workspaces.js';

export interface FencedServices {
  data: DataService;
  workspaces: WorkspacesService;
  messaging: MessagingService;
}

/**
 * What the data directory keeps looks at the lease in the transaction that writes, PostgreSQL in the
 * last step of its own before the commit, and a database without transactions right before each write.
 */
export function fencedServices(
  kernel: Kernel,
  sealer: Sealer,
  { data, workspaces, messaging }: FencedServices,
  caller: FencedCaller,
): FencedServices {
  const fenced = fencedKernel(kernel, caller);
  const check = (): void => checkFenceFromOutside(kernel, caller);
  return {
    // Its writer looks at the lease of the caller.
    data,
    workspaces: new WorkspacesService({
      port: fencedWorkspaces(workspaces.port, fenced, check),
      limits: kernel.limits,
      sealer,
    }),
    messaging: faceOf(messaging, messaging.over(fencedMessaging(messaging.port, fenced, check))),
  };
}

function fencedWorkspaces(port: WorkspacesPort, fenced: Kernel, check: () => void): WorkspacesPort {
  return port instanceof EmbeddedWorkspaces ? port.over(fenced) : (port.guarded?.(check) ?? port);
}

/** Rooms and inboxes beside PostgreSQL are in Redis, which has no transactions to look in. */
function fencedMessaging(port: MessagingPort, fenced: Kernel, check: () => void): MessagingPort {
  if (port instanceof EmbeddedMessaging) return port.over(fenced);
  return checkedBefore(
    port,
    ['post', 'send', 'acknowledge', 'createRoom', 'deleteMessage', 'updateProfile', 'rotateKey'],
    check,
  );
}

/** The same port; `check` may refuse each call of these verbs. */
function checkedBefore<Port extends object>(
  port: Port,
  verbs: readonly (keyof Port)[],
  check: () => void,
): Port {
  const checked = verbs.flatMap((verb) => {
    const member: unknown = port[verb];
    if (typeof member !== 'function') return [];
    const call = async (...given: unknown[]): Promise<unknown> => {
      check();
      return Reflect.apply(member, port, given) as unknown;
    };
    return [[verb, call] as const];
  });
  // The keys are those of the port.
  return faceOf(port, Object.fromEntries(checked) as Partial<Record<keyof Port, unknown>>);
}
