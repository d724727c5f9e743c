/**
 * The space of the newest vectors: the model and the dimensions of the embedder that the directory was last
 * used with.
 */
import { kernelFamilies } from '../../kernel/families.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';

const spaceKey = Buffer.from('vector_space');

/** Undefined until a server with an embedder has run. */
export function readSpace(root: Reader): string | undefined {
  return root.get(kernelFamilies.meta, spaceKey)?.toString();
}

export function putSpace(root: Transaction, space: string): void {
  root.put(kernelFamilies.meta, spaceKey, Buffer.from(space));
}
