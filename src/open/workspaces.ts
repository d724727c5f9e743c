/** Workspaces on their home: in the data directory, or in PostgreSQL. */
import { DirectoryWriter } from '../homes/directory/writer.js';
import type { Kernel } from '../homes/directory/kernel/kernel.js';
import type { Transaction } from '../homes/directory/kernel/transaction.js';
import type { Sealer } from '../secrets/sealer.js';
import type { RecordStore } from '../transfer/port.js';
import { WorkspacesService } from '../workspaces/service.js';
import { userKey } from '../identity/user-key.js';
import { checkFenceFromOutside } from '../homes/directory/fence.js';
import { workspacesRecords } from '../homes/directory/transfer/workspaces.js';
import { openDirectoryWorkspaces } from '../homes/directory/workspaces/workspaces.js';
import { closingAfter, openBase } from './postgres.js';
import { type BackendCall, backendName, timedPort } from './timed.js';

export interface OpenWorkspacesOptions {
  kernel: Kernel;
  /** The URL of a PostgreSQL, or `embedded`. */
  url: string;
  sealer: Sealer;
  /** Called in the transaction of an owner's new workspace: a user exists from its first write. */
  onOwner: (tx: Transaction, user: string) => void;
  onCall: (call: BackendCall) => void;
  /** Faults that no caller waits for. */
  onError: (error: unknown) => void;
}

export interface OpenedWorkspaces {
  service: WorkspacesService;
  /** Every kind of record for exports and imports. */
  records: [type: string, store: RecordStore][];
  /** Takes back what an agent had claimed under these names. Called in the transaction in which its presence is lost. */
  releaseClaims(tx: Transaction, owner: string, names: readonly string[]): void;
}

export function openWorkspaces(options: OpenWorkspacesOptions): Promise<OpenedWorkspaces> {
  return options.url === 'embedded' ? openInDirectory(options) : openInPostgres(options);
}

async function openInDirectory(options: OpenWorkspacesOptions): Promise<OpenedWorkspaces> {
  const { kernel, sealer, onOwner, onError } = options;
  const { limits } = kernel;
  const port = await openDirectoryWorkspaces(kernel, { sealer, onOwner, onError });
  return {
    service: new WorkspacesService({ writer: new DirectoryWriter(kernel), port, limits, sealer }),
    records: workspacesRecords(kernel, { sealer, waiters: port.waiters, onOwner }),
    releaseClaims: (tx, owner, names) => port.tasks.releaseClaims(tx, owner, names),
  };
}

async function openInPostgres(options: OpenWorkspacesOptions): Promise<OpenedWorkspaces> {
  const { kernel, url, sealer, onOwner, onCall, onError } = options;
  const { limits } = kernel;
  const base = await openBase(new URL(url), {
    limits,
    nowMs: () => kernel.nowMs(),
    checkFence: (caller) => checkFenceFromOutside(kernel, caller),
    onError,
  });
  // Loaded only when it is chosen: most directories need no database server.
  const { openPostgresWorkspaces } = await import('../homes/postgres/workspaces/workspaces.js');
  const { sql, writer, clock } = base;
  const { KnownUsers } = await import('../homes/postgres/known-users.js');
  const users = new KnownUsers(
    (_work, user) => kernel.storeOf(userKey(user)).transact((tx) => onOwner(tx, user)),
    limits,
  );
  const port = await openPostgresWorkspaces(sql, writer, { limits, clock, sealer, users, onError });
  base.bound();
  const timed = <T extends object>(one: T): T => timedPort(one, 'workspaces', backendName(url), onCall);
  return {
    service: new WorkspacesService({
      writer: timed(writer),
      port: closingAfter(timed(port), () => base.close()),
      limits,
      sealer,
    }),
    records: port.records(),
    releaseClaims: (tx, owner, names) =>
      tx.onDurable(() => {
        writer.transact((work) => port.releaseClaims(work, owner, names)).catch(onError);
      }),
  };
}
