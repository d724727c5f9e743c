/** The services once more, for the writes of a caller that shows a fencing number. */
import { DataService } from '../datastore/service.js';
import { faceOf } from '../kernel/joint.js';
import type { Kernel } from '../kernel/kernel.js';
import type { MessagingService } from '../messaging/service.js';
import type { Sealer } from '../secrets/sealer.js';
import { WorkspacesService } from '../workspaces/service.js';
import { EmbeddedDataStore } from './embedded/datastore.js';
import { type FencedCaller, fencedKernel } from './embedded/fence.js';
import { EmbeddedMessaging } from './embedded/messaging.js';
import { EmbeddedWorkspaces } from './embedded/workspaces.js';

export interface FencedServices {
  data: DataService;
  workspaces: WorkspacesService;
  messaging: MessagingService;
}

/** A domain in another database cannot look at the lease in its transaction, and stays as it is. */
export function fencedServices(kernel: Kernel, sealer: Sealer, { data, workspaces, messaging }: FencedServices, caller: FencedCaller): FencedServices {
  const fenced = fencedKernel(kernel, caller);
  const { limits, feed } = kernel;
  return {
    data: data.port instanceof EmbeddedDataStore ? new DataService({ port: data.port.over(fenced), limits, nowMs: () => kernel.nowMs(), feed, tracker: data.tracker }) : data,
    workspaces: workspaces.port instanceof EmbeddedWorkspaces ? new WorkspacesService({ port: workspaces.port.over(fenced), limits, sealer }) : workspaces,
    messaging: messaging.port instanceof EmbeddedMessaging ? faceOf(messaging, messaging.over(messaging.port.over(fenced))) : messaging,
  };
}
