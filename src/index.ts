/** The library: what `openStoa` gives is all that server, CLI and MCP use. */
import { EmbeddedIdentity } from './backends/embedded/identity.js';
import { embeddedFamilies } from './backends/embedded/families.js';
import { EmbeddedRegistry } from './backends/embedded/registry.js';
import { ChangesService } from './changes/service.js';
import { messageOf } from './errors.js';
import { ensureOperatorToken } from './identity/operator-token.js';
import { IdentityService } from './identity/service.js';
import { newOperatorToken } from './identity/tokens.js';
import type { EngineName, StoreConfig } from './kernel/engine.js';
import { type Kernel, openKernel } from './kernel/kernel.js';
import type { GroupFacts } from './kernel/store.js';
import { type Limits, limitsWith } from './limits.js';
import { RegistryService } from './registry/service.js';

export interface StoaOptions {
  /** The data directory; made when it is not there. */
  data: string;
  engine?: EngineName | undefined;
  shards?: number | undefined;
  storeConfig?: Partial<Omit<StoreConfig, 'data_dir'>> | undefined;
  limits?: Partial<Limits> | undefined;
  /** Milliseconds since 1970; tests pass a clock of their own. */
  clock?: (() => number) | undefined;
  /** Faults that no caller waits for. */
  onError?: ((error: unknown, about: string) => void) | undefined;
  sweepIntervalMs?: number | undefined;
}

export interface Stoa {
  readonly limits: Limits;
  readonly kernel: Kernel;
  readonly identity: IdentityService;
  readonly registry: RegistryService;
  readonly changes: ChangesService;
  /** The operator's own token, as it is in `operator.token`. */
  readonly operatorToken: string;
  /** False: acknowledged writes may be lost with the machine. */
  readonly syncWrites: boolean;
  /** Calls back for each group of transactions that became durable. Returns the way to stop it. */
  onGroup(listener: (group: GroupFacts) => void): () => void;
  /** Faults that no caller waits for go here. */
  onError(error: unknown, about: string): void;
  close(): Promise<void>;
}

/**
 * Opens a data directory with everything in it.
 *
 * @example
 * const stoa = await openStoa({ data: './data' });
 * const page = stoa.changes.read(operatorCaller(), {});
 * await stoa.close();
 */
export async function openStoa(options: StoaOptions): Promise<Stoa> {
  const limits = limitsWith(options.limits);
  const listeners = new Set<(group: GroupFacts) => void>();
  const onError = options.onError ?? ((error, about) => process.emitWarning(`${about}: ${messageOf(error)}`));
  const kernel = await openKernel({
    dataDir: options.data,
    engine: options.engine,
    shards: options.shards,
    families: embeddedFamilies,
    limits,
    onError,
    onGroup: (group) => {
      for (const listener of listeners) listener(group);
    },
    ...(options.storeConfig && { storeConfig: options.storeConfig }),
    ...(options.clock && { clock: options.clock }),
    ...(options.sweepIntervalMs !== undefined && { sweepIntervalMs: options.sweepIntervalMs }),
  });
  try {
    const operatorToken = kernel.manifest.engine === 'memory' ? newOperatorToken() : await ensureOperatorToken(options.data);
    const port = new EmbeddedIdentity(kernel, (tokenId) => identity.forget(tokenId));
    const identity = new IdentityService({ port, limits, operatorToken, nowMs: () => kernel.nowMs(), onError });
    const registry = new RegistryService({ port: new EmbeddedRegistry(kernel), limits });
    const changes = new ChangesService(kernel.feed, limits);
    kernel.start();
    identity.start();
    return {
      limits,
      kernel,
      identity,
      registry,
      changes,
      operatorToken,
      syncWrites: options.storeConfig?.sync_writes !== false,
      onError,
      onGroup: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
      close: async () => {
        await identity.close();
        await kernel.close();
      },
    };
  } catch (error) {
    await kernel.close();
    throw error;
  }
}
