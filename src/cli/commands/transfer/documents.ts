/**
 * `stoa export --documents` and `stoa import --documents`: only documents, in the seed's format, one on each
 * line.
 */
import { createReadStream } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import { StoaError, messageOf } from '../../../core/errors.js';
import { operatorCaller } from '../../../core/caller.js';
import { type DocumentFileReport, importDocumentFile } from '../../../transfer/document-file.js';
import type { Connection } from '../../connection/connection.js';
import { type Action, textOption } from '../../definitions/definition.js';
import type { Output } from '../../output/output.js';
import { withInputFile } from '../../input/spooled-input.js';
import { writeLines } from '../../output/write-lines.js';

/** Invalid lines that are printed. */
const complaintsMax = 20;

export const exportDocuments: Action = async ({ connect, output }, [file = '-']) => {
  const connection = await connect();
  const progress = output.progress('Exporting');
  let exported = 0;
  async function* lines(): AsyncGenerator<string> {
    let cursor: string | undefined;
    do {
      const page = await connection.call('documents.list', { limit: 1_000, cursor });
      for (const document of page.items) {
        // Fields without a value are left out, as in the seed; but a `value` of null is kept.
        const fields = Object.entries(document).filter(([name, value]) => value !== null || name === 'value');
        yield `${JSON.stringify(Object.fromEntries(fields))}\n`;
      }
      exported += page.items.length;
      progress.show(() => `${exported} documents`);
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }
  try {
    await writeLines(file, lines());
  } finally {
    progress.end();
  }
  if (file === '-') output.say(`Exported ${exported} documents.`);
  else output.done({ exported, file }, `Exported ${exported} documents to ${file}.`);
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
    const left = report.bad_total > 0 ? `; ${report.bad_total} invalid lines were skipped` : '';
    const { lines, bad_total: bad, skipped, imported } = report;
    const summary = { lines, bad, firstBad: report.bad[0]?.line, skipped, imported };
    output.done(
      summary,
      choices.dryRun
        ? `${lines - bad} documents could be imported${left}.`
        : `Imported ${imported} documents${left}.`,
    );
    if (bad > 0) process.exitCode = 1;
  });
};

/** One request for a file of any length, because all lines are validated before anything is written. */
async function importInto(
  connection: Connection,
  output: Output,
  path: string,
  user: string | undefined,
  { dryRun, keepGoing }: { dryRun: boolean; keepGoing: boolean },
): Promise<DocumentFileReport> {
  const progress = output.progress(dryRun ? 'Checking' : 'Importing');
  try {
    const onProgress = (step: { done: number; total: number }): void => progress.update(step);
    if (connection.stoa !== undefined)
      return await importDocumentFile(connection.stoa.data, operatorCaller(user), path, {
        dryRun,
        keepGoing,
        onProgress,
      });
    await checkReadable(path);
    return await connection.work(
      'documents.importLines',
      { dry_run: dryRun, keep_going: keepGoing },
      onProgress,
      createReadStream(path),
    );
  } finally {
    progress.end();
  }
}

/** Checked before the request, because a failure during the upload looks like an unreachable server. */
async function checkReadable(path: string): Promise<void> {
  const reason = await access(path, constants.R_OK).then(
    async () => ((await stat(path)).isDirectory() ? 'it is a directory' : undefined),
    messageOf,
  );
  if (reason !== undefined) throw new StoaError('invalid_request', `${path} cannot be read: ${reason}.`);
}

function printInvalidLines(output: Output, bad: DocumentFileReport['bad']): void {
  for (const { line, reason } of bad.slice(0, complaintsMax)) output.say(`Line ${line}: ${reason}`);
}
