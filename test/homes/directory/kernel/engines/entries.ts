/** Entries of an engine, written as text. */
import type { Entry, WriteOperation } from '../../../../../src/homes/directory/kernel/engine.js';

export const families = ['documents', 'agents', 'registry/tokens'];

export function put(family: string, key: string | Buffer, value: string | Buffer): WriteOperation {
  return { family, key: Buffer.from(key), value: Buffer.from(value) };
}

export function del(family: string, key: string): WriteOperation {
  return { family, key: Buffer.from(key), value: undefined };
}

export function text(value: Buffer | undefined): string | undefined {
  return value?.toString();
}

export function keysOf(entries: Iterable<Entry>): string[] {
  return [...entries].map(({ key }) => key.toString());
}
