/** `stoa backup`: a full or incremental backup, while the server runs or without one. */
import { resolve } from 'node:path';
import { type Action, present } from '../definition.js';
import { Progress } from '../progress.js';

interface Backup {
  name: string;
  directory: string;
  kind: string;
  parent: string | null;
  store: string;
  taken_at: string;
}

export const backup: Action = async ({ connect, output }, [given], options) => {
  const connection = await connect();
  const kind = options['incremental'] === true ? ('incremental' as const) : ('full' as const);
  const directory = given === undefined ? undefined : resolve(given);
  if (connection.stoa === undefined) {
    output.say(`${connection.where} makes a ${kind} backup …`);
    output.value(await connection.call<Backup>('POST', '/v1/backups', { body: present({ kind, directory }) }));
    return;
  }
  const [{ backup: makeBackup }, { join }] = await Promise.all([import('../../kernel/backup.js'), import('node:path')]);
  const { kernel } = connection.stoa;
  const target = directory ?? join(resolve(kernel.dataDir), 'backups');
  const progress = new Progress('Backing up');
  try {
    const { name, parent, store, taken_at } = await makeBackup(kernel, { directory: target, kind, onProgress: (step) => progress.update(step) });
    progress.end();
    output.value({ name, directory: target, kind, parent, store, taken_at } satisfies Backup);
  } finally {
    progress.end();
  }
};
