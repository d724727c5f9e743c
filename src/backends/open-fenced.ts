/** The services whose writes do not check the fence of their caller by themselves yet, once more for a caller that shows one. */
import type { DataStorePort } from '../datastore/port.js';
import type { DataService } from '../datastore/service.js';
import { faceOf } from '../kernel/joint.js';
import type { Kernel } from '../kernel/kernel.js';
import type { MessagingPort } from '../messaging/port.js';
import type { MessagingService } from '../messaging/service.js';
import { EmbeddedDataStore } from './embedded/datastore.js';
import { type FencedCaller, checkFenceFromOutside, fencedKernel } from './embedded/fence.js';
import { EmbeddedMessaging } from './embedded/messaging.js';

export interface FencedServices {
  data: DataService;
  messaging: MessagingService;
}

/**
 * What the data directory keeps looks at the lease in the transaction that writes, PostgreSQL in the
 * last step of its own before the commit, and a database without transactions right before each write.
 */
export function fencedServices(
  kernel: Kernel,
  { data, messaging }: FencedServices,
  caller: FencedCaller,
): FencedServices {
  const fenced = fencedKernel(kernel, caller);
  const check = (): void => checkFenceFromOutside(kernel, caller);
  return {
    data: data.over(fencedData(data.port, fenced, check)),
    messaging: faceOf(messaging, messaging.over(fencedMessaging(messaging.port, fenced, check))),
  };
}

function fencedData(port: DataStorePort, fenced: Kernel, check: () => void): DataStorePort {
  if (port instanceof EmbeddedDataStore) return port.over(fenced);
  // The steps of a clear are commits of their own, and so are imports.
  return port.guarded === undefined
    ? checkedBefore(port, ['write', 'modify', 'clearStep', 'restore'], check)
    : checkedBefore(port.guarded(check), ['clearStep', 'restore'], check);
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
