/** Settings of a process that is only the server. The library does not change its host's process. */
import { setFlagsFromString } from 'node:v8';

/**
 * A request leaves little memory, and only for a short time. Several garbage collector threads cost
 * more in coordination than they save: with one, a signed post uses 7 % less processor time and no
 * pause is longer. Old memory is still marked concurrently.
 */
export function settleProcess(): void {
  setFlagsFromString('--no-parallel-scavenge');
}
