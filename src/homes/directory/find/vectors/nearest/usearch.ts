/** The package usearch: graphs of vectors in which the nearest are found without comparing all. */
import { messageOf, StoaError } from '../../../../../core/errors.js';
import { importOptional } from '../../../../../core/optional-package.js';

/** The used part of the package. Keys and vectors may be lists; here each call has one. */
export interface UsearchIndex {
  add(key: bigint, vector: Float32Array, threads: number): void;
  search(vector: Float32Array, count: number, threads: number): { readonly keys: BigUint64Array };
}

export interface Usearch {
  readonly Index: new (options: {
    readonly dimensions: number;
    readonly metric: 'ip';
    readonly quantization: 'f16';
    readonly connectivity: number;
    readonly expansion_add: number;
    readonly expansion_search: number;
  }) => UsearchIndex;
}

/** The package, or why there is none. */
export type LoadedUsearch = { readonly usearch: Usearch } | { readonly missing: string };

export async function loadUsearch(): Promise<LoadedUsearch> {
  try {
    return { usearch: await importOptional<Usearch>('usearch', 2) };
  } catch (error) {
    if (error instanceof StoaError && error.code === 'missing_package')
      return { missing: 'the package usearch is not installed (npm install usearch@2)' };
    // It has no build for this system, for example.
    return { missing: `the package usearch cannot be loaded: ${messageOf(error).split('\n')[0]}` };
  }
}
