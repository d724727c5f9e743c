/** What the store and the saver call: the client of a server, or a Stoa in the same process. */
import type { DataClient, Stoa as Client } from '../client/index.js';
import type { CommitService } from '../commit/service.js';
import type { Caller } from '../core/caller.js';
import type { JsonValue } from '../datastore/model.js';
import type {
  NamespaceSettings,
  NamespaceSettingsService,
  SettingsChange,
} from '../datastore/namespaces/namespace-settings.js';
import type { DataService } from '../datastore/service.js';
import type { FindService } from '../find/service.js';
import type { VectorsService } from '../find/vectors/service.js';

/** The client of a server, or what `inProcess` returns. */
export interface StoaCalls extends Pick<Client, 'commit' | 'find'> {
  data<Value>(namespace: string): Documents<Value>;
}

export type Documents<Value> = Pick<
  DataClient<Value>,
  | 'namespace'
  | 'get'
  | 'getEntry'
  | 'getMany'
  | 'getAll'
  | 'entries'
  | 'listKeys'
  | 'set'
  | 'batch'
  | 'settings'
  | 'changeSettings'
>;

/** What `openStoa` returns. */
export interface OpenStoa {
  readonly data: DataService;
  readonly commit: CommitService;
  readonly find: FindService;
  readonly namespaceSettings: NamespaceSettingsService;
  readonly vectors: VectorsService;
}

/**
 * The caller's view of a Stoa that this process has opened, for the store and the saver: without HTTP, with the same
 * checks of rights and limits.
 *
 * @example
 * const stoa = await openStoa({ data: './data' });
 * const client = inProcess(stoa, operatorCaller('ada', 'planner'));
 * const checkpointer = new StoaSaver({ client });
 */
export function inProcess(stoa: OpenStoa, caller: Caller): StoaCalls {
  return {
    data: (namespace) => documentsOf(stoa, caller, namespace),
    // No answer is lost on the way, so nothing is repeated and an Idempotency-Key is not needed.
    commit: (input) => stoa.commit.commit(caller, input),
    find: (words, request = {}) => stoa.find.find(caller, { ...request, q: words }),
  };
}

function documentsOf<Value>(
  { data, namespaceSettings, vectors }: OpenStoa,
  caller: Caller,
  namespace: string,
): Documents<Value> {
  const shown = ({ embed_fields: fields, ...settings }: NamespaceSettings) => ({
    ...settings,
    embed_fields: fields === null ? null : [...fields],
    embedder: vectors.embedder,
  });
  const documents: Documents<JsonValue> = Object.assign(data.open(caller, namespace), {
    settings: async () => shown(await namespaceSettings.read(caller, namespace)),
    changeSettings: async (change: SettingsChange) =>
      shown(await namespaceSettings.change(caller, namespace, change)),
  });
  // Only the caller knows the type of the values.
  return documents as Documents<unknown> as Documents<Value>;
}
