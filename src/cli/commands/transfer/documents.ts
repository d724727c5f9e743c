/**
 * `stoa export --documents` and `stoa import --documents`: only documents, in the seed's format, one on each
 * line.
 */
import { StoaError } from '../../../core/errors.js';
import { operatorCaller } from '../../../core/caller.js';
import { type DocumentFileReport, importDocumentFile } from '../../../transfer/document-file.js';
import type { Connection } from '../../connection/connection.js';
import { type Action, textOption } from '../../definitions/definition.js';
import { type Output, counted } from '../../output/output.js';
import type { Progress } from '../../output/progress.js';
import { withInputFile } from '../../input/spooled-input.js';
import { writeLines } from '../../output/write-lines.js';
import { TransferBar } from './transfer-bar.js';

/** Invalid lines that are printed. */
const complaintsMax = 20;

export const exportDocuments: Action = async ({ connect, output }, [file = '-']) => {
  const connection = await connect();
  let exported = 0;
  async function* lines(progress: Progress): AsyncGenerator<string> {
    let cursor: string | undefined;
    do {
      const page = await connection.call('documents.list', { limit: 1_000, cursor });
      for (const document of page.items) {
        // Fields without a value are left out, as in the seed; but a `value` of null is kept.
        const fields = Object.entries(document).filter(([name, value]) => value !== null || name === 'value');
        yield `${JSON.stringify(Object.fromEntries(fields))}\n`;
      }
      exported += page.items.length;
      progress.show(() => counted(exported, 'document'));
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }
  await output.working('Exporting', (progress) => writeLines(file, lines(progress)));
  if (file === '-') output.say(`Exported ${counted(exported, 'document')}.`);
  else output.done({ exported, file }, `Exported ${counted(exported, 'document')} to ${file}.`);
};

export const importDocuments: Action = async ({ connect, output, globals }, [file = '-'], options) => {
  await withInputFile(file, async (path) => {
    const choices = { dryRun: options['dryRun'] === true, keepGoing: options['keepGoing'] === true };
    const report = await importInto(
      await connect(choices.dryRun ? 'empty' : 'created'),
      output,
      path,
      textOption(globals, 'user'),
      choices,
    ).catch((error: unknown) => {
      if (error instanceof StoaError)
        // The server sends this list with the error.
        printInvalidLines(output, (error.details?.['bad'] ?? []) as DocumentFileReport['bad']);
      throw error;
    });
    printInvalidLines(output, report.bad);
    for (const line of report.oversized)
      output.say(
        `Line ${line}: the value exceeds the limit; ${choices.dryRun ? 'it would still be' : 'it was still'} imported.`,
      );
    const left = report.bad_total > 0 ? `; skipped ${counted(report.bad_total, 'invalid line')}` : '';
    const { lines, bad_total: bad, skipped, imported } = report;
    const summary = { lines, bad, firstBad: report.bad[0]?.line, skipped, imported };
    output.done(
      summary,
      choices.dryRun
        ? `Could import ${counted(lines - bad, 'document')}${left}.`
        : `Imported ${counted(imported, 'document')}${left}.`,
    );
    if (bad > 0) process.exitCode = 1;
  });
};

/** One request for a whole file, because all lines are validated before anything is written. */
async function importInto(
  connection: Connection,
  output: Output,
  path: string,
  user: string | undefined,
  { dryRun, keepGoing }: { dryRun: boolean; keepGoing: boolean },
): Promise<DocumentFileReport> {
  const bar = new TransferBar(output);
  try {
    if (connection.stoa !== undefined)
      return await importDocumentFile(connection.stoa.data, operatorCaller(user), path, {
        dryRun,
        keepGoing,
        onProgress: bar.work,
      });
    return await connection.work(
      'documents.importLines',
      { dry_run: dryRun, keep_going: keepGoing },
      bar.work,
      await bar.sent(path),
    );
  } finally {
    bar.end();
  }
}

function printInvalidLines(output: Output, bad: DocumentFileReport['bad']): void {
  for (const { line, reason } of bad.slice(0, complaintsMax)) output.say(`Line ${line}: ${reason}`);
}
