/** Limits of the search over documents, tasks and messages. */
import type { LimitGroup } from './definition.js';

export const findLimits = {
  findItemsDefault: { default: 10, positive: true, about: 'Results of a search that asks for no number.' },
  findItemsMax: { default: 100, positive: true, about: 'Results on one page of a search.' },
  findQueryBytesMax: { default: 2_048, positive: true, about: 'Bytes in the words of a search.' },
  findPhrasesMax: { default: 32, positive: true, about: 'Phrases and excluded words of a search.' },
  findFilterBytesMax: { default: 16 * 1024, positive: true, about: 'Bytes of a filter as JSON.' },
  findFilterFieldsMax: { default: 32, positive: true, about: 'Conditions in a filter.' },
  findDocumentsExaminedMax: {
    default: 10_000,
    positive: true,
    about:
      'Documents whose values one search with a filter reads. The answer says if it stopped there ' +
      '(`examined_all` is false).',
  },
  findSortedMax: {
    default: 10_000,
    positive: true,
    about: 'Matching documents that a search sorts by a field.',
  },
  findPostingsMax: {
    default: 4_000_000,
    positive: true,
    about:
      'Entries of word lists that one search reads. The answer says if it stopped there (`examined_all` is false).',
  },
  findWaitingMax: {
    default: 256,
    positive: true,
    about:
      'Documents, tasks and messages of one user that wait to be filed into word lists. Searches find them too.',
  },
  findCacheBytesMax: {
    default: 64 * 1024 * 1024,
    about: 'Bytes of search tables that a server caches in memory.',
  },
  findDeadSecondsMax: {
    default: 3_600,
    positive: true,
    about: 'Seconds within which deleted and expired text is removed from the search index.',
  },
} as const satisfies LimitGroup;
