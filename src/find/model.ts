/** What can be found: documents, tasks and messages, as one kind of thing for the search. */

export const findKinds = ['data', 'tasks', 'messages'] as const;
export type FindKind = (typeof findKinds)[number];

/** How results are found: by their words, by their meaning (vectors of an embedder), or by both. */
export const findModes = ['text', 'vector', 'hybrid'] as const;
export type FindMode = (typeof findModes)[number];

/**
 * The name of one thing in the index. For a document: its namespace and key. For a task: its project and id.
 * For a message: its room and id.
 */
export interface EntryName {
  readonly kind: FindKind;
  /** The collection: the smallest part of the index that a caller may read or not read. */
  readonly collection: string;
  readonly id: string;
}

/** The text of a thing, in the two fields that the ranking knows. Words of two pieces are never neighbours. */
export interface EntryText {
  readonly title: readonly string[];
  readonly body: readonly string[];
}

/** The facts of a thing that a search filters and sorts by. */
export interface EntryFacts {
  readonly name: EntryName;
  readonly version: number;
  /** The agent of the last write; null if it named none. */
  readonly author: string | null;
  /** When the thing was last written. */
  readonly timeMs: number;
  /** From this time on the thing is not found; null means never. */
  readonly expiresAtMs: number | null;
}

/** A thing that a search found, with its place in the order of results. */
export interface RankedEntry extends EntryFacts {
  readonly score: number;
}

/** A part of a text with the matched words: `marks` are ranges of UTF-16 units in `text`. */
export interface Excerpt {
  readonly text: string;
  readonly marks: readonly (readonly [start: number, end: number])[];
}
