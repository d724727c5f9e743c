/** The kernel under an open Stoa, for tests that look at rows. */
import { DirectoryHome } from '../src/homes/directory/home.js';
import type { Kernel } from '../src/homes/directory/kernel/kernel.js';
import type { Stoa } from '../src/index.js';

export function kernelOf({ home }: Pick<Stoa, 'home'>): Kernel {
  if (home instanceof DirectoryHome) return home.kernel;
  throw new Error(`The home is ${home.name}, which has no kernel.`);
}
