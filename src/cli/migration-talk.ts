/** Tells whoever waits that the data is being brought to a newer format, and how far that is. */
import type { StoaOptions } from '../index.js';
import type { Output } from './output.js';
import type { Progress } from './progress.js';

export function migrationTalk(output: Output): NonNullable<StoaOptions['onMigration']> {
  let bar: { stage: string; progress: Progress } | undefined;
  return ({ stage, from, to, directory, done, total }) => {
    if (bar?.stage !== stage) {
      bar?.progress.end();
      output.say(
        stage === 'backup'
          ? `The data has format ${from}. It is backed up to ${directory} first.`
          : `The data is brought from format ${from} to ${to}.`,
      );
      bar = { stage, progress: output.progress(stage === 'backup' ? 'Backing up' : 'Migrating') };
    }
    bar.progress.update({ done, total });
    if (done === total) bar.progress.end();
  };
}
