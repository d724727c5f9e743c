/** The services whose writes do not check the fence of their caller by themselves yet, once more for a caller that shows one. */
import { faceOf } from '../kernel/joint.js';
import type { Kernel } from '../kernel/kernel.js';
import type { MessagingPort } from '../messaging/port.js';
import type { MessagingService } from '../messaging/service.js';
import { type FencedCaller, checkFenceFromOutside, fencedKernel } from './embedded/fence.js';
import { EmbeddedMessaging } from './embedded/messaging.js';

export interface FencedServices {
  messaging: MessagingService;
}

/** In the directory the lease is checked in the transaction that writes; on Redis right before each write. */
export function fencedServices(
  kernel: Kernel,
  { messaging }: FencedServices,
  caller: FencedCaller,
): FencedServices {
  const fenced = fencedKernel(kernel, caller);
  const check = (): void => checkFenceFromOutside(kernel, caller);
  return {
    messaging: faceOf(messaging, messaging.over(fencedMessaging(messaging.port, fenced, check))),
  };
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
