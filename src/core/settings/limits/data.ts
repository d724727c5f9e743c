/** Limits of the data store. */
import type { LimitGroup } from './definition.js';

export const dataLimits = {
  dataDocumentsPerUserMax: {
    default: 0,
    setting: true,
    about: 'Documents of one user; 0 means no limit.',
  },
  dataBytesPerUserMax: {
    default: 0,
    setting: true,
    about: 'Bytes of all values of one user; 0 means no limit.',
  },
  dataNamespacesPerUserMax: {
    default: 0,
    setting: true,
    about: 'Namespaces of one user; 0 means no limit.',
  },
  valueBytesMax: {
    default: 1024 * 1024,
    setting: true,
    about: 'Bytes of a stored value as JSON. A request body with the value must fit into bodyBytesMax.',
  },
  valueDepthMax: { default: 200, about: 'Nesting levels in a stored value.' },
  metadataBytesMax: { default: 64 * 1024, about: "Bytes of a document's metadata as JSON." },
  dataKeyBytesMax: { default: 1_024, about: 'Bytes in a key.' },
  namespaceBytesMax: { default: 256, about: 'Bytes in a namespace.' },
  namespaceSettingsMax: {
    default: 1_000,
    positive: true,
    about: 'Namespaces of one user that have settings other than the defaults.',
  },
  dataBatchKeysMax: {
    default: 1_000,
    positive: true,
    about: 'Keys in one batch, counting reads, writes and deletions.',
  },
  dataBatchBytesMax: { default: 16 * 1024 * 1024, about: 'Bytes of all values in one batch.' },
  dataPageBytesMax: {
    default: 16 * 1024 * 1024,
    about: 'Bytes of values on a page of documents. The page ends early there.',
  },
  namespaceAgentsListedMax: {
    default: 1_000,
    positive: true,
    about: 'Agents listed for one namespace, the first by name.',
  },
  namespacePageAgentsMax: {
    default: 10_000,
    positive: true,
    about: 'Agents on a page of namespaces. The page ends early there.',
  },
  clearStepMax: {
    default: 1_000,
    positive: true,
    about: 'Documents deleted in one commit when a namespace is cleared.',
  },
  trackedReadsMax: {
    default: 100_000,
    about:
      'Documents with read counts waiting in memory. At this number they are written; if that fails, ' +
      'no further documents are counted.',
  },
  updateAttemptsMax: {
    default: 100,
    positive: true,
    about: 'Attempts of an update that conflicts with writers in other processes.',
  },
  foreignDocumentsSeconds: {
    default: 5,
    about:
      'Seconds between scans of a listed namespace on CouchDB or DynamoDB for documents of other ' +
      'programs; 0 scans before each list.',
  },
  knownAgentSeconds: {
    default: 60,
    about: 'Seconds between updates of the record that an agent works in a namespace.',
  },
} as const satisfies LimitGroup;
