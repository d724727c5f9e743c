/**
 * `stoa export` and `stoa import`: all data as lines of JSON, through the server or on a closed directory.
 */
import { StoaError } from '../../../core/errors.js';
import { flagOf } from '../../../core/settings/settings.js';
import { operatorCaller } from '../../../core/caller.js';
import {
  type ImportReport,
  type OnConflict,
  type TransferDomain,
  transferDomains,
} from '../../../transfer/model.js';
import type { Connection } from '../../connection/connection.js';
import { type Action, type Options, textOption } from '../../definitions/definition.js';
import { type Output, counted, sizeText } from '../../output/output.js';
import { withInputFile } from '../../input/spooled-input.js';
import { writeLines } from '../../output/write-lines.js';
import { exportDocuments, importDocuments } from './documents.js';
import { TransferBar, measured } from './transfer-bar.js';

export const exportAll: Action = async (context, args, options) => {
  if (isDocuments(options, ['domains', 'withSecrets'])) return exportDocuments(context, args, options);
  const { connect, output, globals } = context;
  const [file = '-'] = args;
  const domains = domainsOf(options);
  const withSecrets = options['withSecrets'] === true;
  if (withSecrets)
    output.warn('This export contains secrets as plain text. Store it like a key, and delete it after use.');
  const lines = await linesOf(await connect(), textOption(globals, 'user') ?? null, domains, withSecrets);
  await output.working('Exporting', (progress) =>
    writeLines(
      file,
      measured(lines, (sizeBytes) => progress.show(() => sizeText(sizeBytes))),
    ),
  );
  if (file !== '-') output.done({ file }, `Exported to ${file}.`);
};

export const importAll: Action = async (context, args, options) => {
  if (isDocuments(options, ['ids', 'onConflict'])) return importDocuments(context, args, options);
  const { connect, output } = context;
  const [file = '-'] = args;
  // Every line is validated before the first record is written, so the file is read twice.
  await withInputFile(file, async (path) => {
    const report = await importInto(
      await connect(options['dryRun'] === true ? 'empty' : 'created'),
      output,
      path,
      {
        dryRun: options['dryRun'] === true,
        ids: choice(options, 'ids', ['keep', 'map']),
        onConflict: choice(options, 'onConflict', ['fail', 'skip', 'replace']),
        keepGoing: options['keepGoing'] === true,
      },
    );
    show(report, output);
    if (report.bad_total > 0 || (report.dry_run && report.conflicts_total > 0)) process.exitCode = 1;
  });
};

/** Whether --documents was given. Refuses flags that cannot be used with it. */
function isDocuments(options: Options, others: readonly string[]): boolean {
  if (options['documents'] !== true) return false;
  const other = others.find((name) => options[name] !== undefined);
  if (other === undefined) return true;
  throw new StoaError('invalid_request', `${flagOf(other)} cannot be used with --documents.`, {
    fix: `Leave out ${flagOf(other)} or --documents.`,
  });
}

interface ImportChoices {
  dryRun: boolean;
  ids: 'keep' | 'map' | undefined;
  onConflict: OnConflict | undefined;
  keepGoing: boolean;
}

async function importInto(
  connection: Connection,
  output: Output,
  path: string,
  choices: ImportChoices,
): Promise<ImportReport> {
  const { dryRun, ids, onConflict, keepGoing } = choices;
  const bar = new TransferBar(output);
  try {
    if (connection.stoa !== undefined)
      return await connection.stoa.transfer.import(operatorCaller(), path, {
        ...choices,
        onProgress: bar.work,
      });
    return await connection.work(
      'server.import',
      { dry_run: dryRun, ids, on_conflict: onConflict, keep_going: keepGoing },
      bar.work,
      await bar.sent(path),
    );
  } finally {
    bar.end();
  }
}

async function linesOf(
  connection: Connection,
  user: string | null,
  domains: TransferDomain[] | undefined,
  withSecrets: boolean,
): Promise<AsyncIterable<string | Uint8Array>> {
  if (connection.stoa !== undefined)
    return connection.stoa.transfer.export(operatorCaller(user ?? undefined), { user, domains, withSecrets });
  return connection.download('server.export', { domains, with_secrets: withSecrets });
}

function show(report: ImportReport, output: Output): void {
  for (const { line, reason } of report.bad) output.say(line === 0 ? reason : `Line ${line}: ${reason}`);
  for (const { line, kind, type, id, detail } of report.conflicts)
    output.say(`Line ${line}: ${kind}: ${type} ${id}: ${detail}`);
  const { records, written, replaced, same, skipped, conflicts_total, bad_total } = report;
  const bad = bad_total > 0 ? `; skipped ${counted(bad_total, 'invalid line')}` : '';
  if (report.dry_run)
    output.done(
      report,
      `${counted(records, 'record')}, ${counted(conflicts_total, 'conflict')}; nothing was written${bad}.`,
    );
  else
    output.done(
      report,
      `${counted(written, 'record')} written, ${replaced} replaced, ${same} unchanged, ${skipped} skipped${bad}.`,
    );
}

function domainsOf(options: Options): TransferDomain[] | undefined {
  const text = textOption(options, 'domains');
  return text?.split(',').map((name) => {
    const domain = transferDomains.find((known) => known === name);
    if (domain === undefined)
      throw new StoaError('invalid_request', `Unknown domain "${name}".`, {
        fix: `Use ${transferDomains.join(', ')}.`,
      });
    return domain;
  });
}

function choice<Choice extends string>(
  options: Options,
  name: string,
  choices: readonly Choice[],
): Choice | undefined {
  const text = textOption(options, name);
  const chosen = choices.find((known) => known === text);
  if (text !== undefined && chosen === undefined)
    throw new StoaError(
      'invalid_request',
      `${flagOf(name)} must be one of ${choices.join(', ')}, got "${text}".`,
    );
  return chosen;
}
