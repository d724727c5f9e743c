/** Limits of searches by meaning: the embedder and its vectors. */
import { type LimitGroup, timerSecondsMax } from './definition.js';

export const vectorLimits = {
  embedTextBytesMax: {
    default: 8_192,
    positive: true,
    about:
      'Bytes of text that the embedder gets of one document. A token has at least one byte, so the default fits ' +
      'models that take 8,192 tokens.',
  },
  embedBatchMax: {
    default: 64,
    positive: true,
    max: 2_048,
    about: 'Texts in one request to the embedder.',
  },
  embedSecondsMax: {
    default: 30,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds that one request to the embedder may take.',
  },
  embedAttemptsMax: {
    default: 3,
    positive: true,
    about: 'Requests to the embedder for the words of one search, before the search is refused.',
  },
  embedPauseSecondsMax: {
    default: 60,
    positive: true,
    max: timerSecondsMax,
    about: 'Longest pause between attempts while the embedder fails. Pauses begin at one second and double.',
  },
  embedAnswerBytesMax: {
    default: 16 * 1024 * 1024,
    positive: true,
    about: 'Bytes of one answer of the embedder.',
  },
  embedFieldsMax: { default: 32, positive: true, about: 'Members of a value that a namespace embeds.' },
  vectorsExaminedMax: {
    default: 100_000,
    positive: true,
    about:
      'Vectors that one search compares one by one. The answer says if it stopped there (`examined_all` is false).',
  },
  vectorsExactMax: {
    default: 5_000,
    positive: true,
    about: 'Vectors of a namespace above which a data directory uses usearch, if it is installed.',
  },
  vectorGraphBytesMax: {
    default: 512 * 1024 * 1024,
    about:
      'Bytes of memory for the graphs of usearch. A namespace whose graph has no room is searched by comparing its vectors one by one.',
  },
  vectorGraphIdleSeconds: {
    default: 3_600,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds without a search after which the graph of a namespace is dropped.',
  },
  vectorResultsMax: {
    default: 1_000,
    positive: true,
    about: 'Documents that a search by meaning ranks, on all its pages together.',
  },
  queryVectorsCachedMax: {
    default: 1_000,
    about: 'Vectors of searched words that a server caches, so that the next page needs no embedder.',
  },
} as const satisfies LimitGroup;
