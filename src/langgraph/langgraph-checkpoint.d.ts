/**
 * What the adapter uses of `@langchain/langgraph-checkpoint`, an optional peer: Stoa compiles without
 * it. This file is not shipped, so that a user's compiler sees the package's own types; the tests are
 * compiled against those too.
 */
declare module '@langchain/langgraph-checkpoint' {
  interface RunnableConfig {
    // oxlint-disable-next-line typescript/no-explicit-any -- as LangGraph declares it
    configurable?: Record<string, any>;
  }

  // oxlint-disable-next-line typescript/no-explicit-any -- as LangGraph declares it
  type Value = Record<string, any>;

  export interface Item {
    value: Value;
    key: string;
    namespace: string[];
    createdAt: Date;
    updatedAt: Date;
  }
  export interface SearchItem extends Item {
    score?: number;
  }
  export interface GetOperation {
    namespace: string[];
    key: string;
  }
  export interface SearchOperation {
    namespacePrefix: string[];
    filter?: Value;
    limit?: number;
    offset?: number;
    query?: string;
  }
  export interface PutOperation {
    namespace: string[];
    key: string;
    value: Value | null;
    index?: false | string[];
  }
  export interface MatchCondition {
    matchType: 'prefix' | 'suffix';
    path: string[];
  }
  export interface ListNamespacesOperation {
    matchConditions?: MatchCondition[];
    maxDepth?: number;
    limit: number;
    offset: number;
  }
  export type Operation = GetOperation | SearchOperation | PutOperation | ListNamespacesOperation;
  export type OperationResults<Tuple extends readonly Operation[]> = {
    [K in keyof Tuple]: Tuple[K] extends PutOperation
      ? void
      : Tuple[K] extends SearchOperation
        ? SearchItem[]
        : Tuple[K] extends GetOperation
          ? Item | null
          : Tuple[K] extends ListNamespacesOperation
            ? string[][]
            : never;
  };

  export abstract class BaseStore {
    abstract batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>>;
    get(namespace: string[], key: string): Promise<Item | null>;
    search(
      namespacePrefix: string[],
      options?: { filter?: Value; limit?: number; offset?: number; query?: string },
    ): Promise<SearchItem[]>;
    put(namespace: string[], key: string, value: Value, index?: false | string[]): Promise<void>;
    delete(namespace: string[], key: string): Promise<void>;
  }

  export interface Checkpoint {
    v: number;
    id: string;
    ts: string;
    channel_values: Record<string, unknown>;
    channel_versions: Record<string, number | string>;
    versions_seen: Record<string, Record<string, number | string>>;
  }
  export type ChannelVersions = Record<string, number | string>;
  export type PendingWrite = [string, unknown];
  export type CheckpointPendingWrite = [string, string, unknown];
  export type CheckpointMetadata = {
    source: 'input' | 'loop' | 'update' | 'fork';
    step: number;
    parents: Record<string, string>;
    counters_since_delta_snapshot?: Record<string, [number, number]>;
  };
  export interface CheckpointTuple {
    config: RunnableConfig;
    checkpoint: Checkpoint;
    metadata?: CheckpointMetadata;
    parentConfig?: RunnableConfig;
    pendingWrites?: CheckpointPendingWrite[];
  }
  export type CheckpointListOptions = { limit?: number; before?: RunnableConfig; filter?: Value };

  export interface SerializerProtocol {
    dumpsTyped(data: unknown): Promise<[string, Uint8Array]>;
    loadsTyped(type: string, data: Uint8Array | string): Promise<unknown>;
  }

  export abstract class BaseCheckpointSaver<V extends string | number = number> {
    serde: SerializerProtocol;
    constructor(serde?: SerializerProtocol);
    abstract getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined>;
    abstract list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple>;
    abstract put(
      config: RunnableConfig,
      checkpoint: Checkpoint,
      metadata: CheckpointMetadata,
      newVersions: ChannelVersions,
    ): Promise<RunnableConfig>;
    abstract putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void>;
    abstract deleteThread(threadId: string): Promise<void>;
    getNextVersion(current: V | undefined): V;
  }

  export const TASKS: '__pregel_tasks';
  export const WRITES_IDX_MAP: Record<string, number>;
  export function copyCheckpoint(checkpoint: Checkpoint): Checkpoint;
  export function getCheckpointId(config: RunnableConfig): string;
  export function maxChannelVersion(...versions: (number | string)[]): number | string;
}
