/**
 * LangGraph's memory and checkpoints in Stoa: `import { StoaSaver, StoaStore } from
 * 'stoa/langgraph'`.
 */
export { type OpenStoa, type StoaCalls, inProcess } from './in-process.js';
export type { PruneOptions, Pruned } from './pruning.js';
export { StoaSaver, type StoaSaverOptions } from './saver.js';
export { type PutSettings, type StoaPutOperation, StoaStore, type StoaStoreOptions } from './store.js';
