/**
 * LangGraph's memory and checkpoints on a Stoa server: `import { StoaSaver, StoaStore } from
 * 'stoa/langgraph'`.
 */
export type { PruneOptions, Pruned } from './pruning.js';
export { StoaSaver, type StoaSaverOptions } from './saver.js';
export { type PutSettings, type StoaPutOperation, StoaStore, type StoaStoreOptions } from './store.js';
