/** The keys of a thread's documents: its checkpoints, channel values and pending writes. */
import { pathPrefix, reversed } from './keys.js';

/** A line of checkpoints: a thread has one for each graph in it. */
export interface Line {
  thread: string;
  ns: string;
}

/** Checkpoints, channel values and pending writes. */
export type DocumentKind = 'c' | 'v' | 'w';

export function threadPrefix(kind: DocumentKind, thread: string): string {
  return pathPrefix([kind, thread]);
}

export function linePrefix(kind: DocumentKind, { thread, ns }: Line): string {
  return pathPrefix([kind, thread, ns]);
}

export function checkpointKey(line: Line, id: string): string {
  return linePrefix('c', line) + reversed(id);
}

/** The values that are new in a checkpoint. No channel begins with a colon: pathPrefix escapes it. */
export function newValuesKey(line: Line, id: string): string {
  return `${linePrefix('v', line)}:${pathPrefix([id])}`;
}

/** A long value. */
export function valueKey(line: Line, channel: string, version: number | string): string {
  return `${linePrefix('v', line)}${pathPrefix([channel])}${pathPrefix([String(version)])}`;
}

export function writesPrefix(line: Line, id: string): string {
  return `${linePrefix('w', line)}${pathPrefix([id])}`;
}
