/** Words are filed for the search after the write is answered. A bench that counts processor time counts that too. */
import { DirectoryFind } from '../src/homes/directory/find/find.js';
import type { Stoa } from '../src/index.js';

/** Files all words that wait. */
export async function fileWords({ find }: Stoa): Promise<void> {
  if (!(find.port instanceof DirectoryFind)) throw new Error('Only the index of a directory is filed here.');
  await find.port.work.settle();
}
