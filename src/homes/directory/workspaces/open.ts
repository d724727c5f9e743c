/** Opens workspaces in the data directory. */
import type { Kernel } from '../kernel/kernel.js';
import { migrateWorkspaces } from './migrations.js';
import type { DirectoryWorkspacesOptions } from './parts.js';
import { DirectoryWorkspaces } from './workspaces.js';

/** Brings the stored layout up to date and registers the timers. */
export async function openDirectoryWorkspaces(
  kernel: Kernel,
  options: DirectoryWorkspacesOptions,
): Promise<DirectoryWorkspaces> {
  for (const store of kernel.stores) await migrateWorkspaces(store, options.migrations);
  return new DirectoryWorkspaces(kernel, options);
}
