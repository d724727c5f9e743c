/**
 * An export as lines of JSON: a header, all records, and a last line that proves that the file is complete.
 */
import { createHash } from 'node:crypto';
import { StoaError } from '../core/errors.js';
import { Slices } from '../core/waiting/yielding.js';
import { recordKinds } from './records/kinds.js';
import {
  type Header,
  type Trailer,
  type TransferDomain,
  type TransferRecord,
  formatName,
  formatVersion,
  transferDomains,
} from './model.js';
import type { RecordStore } from './port.js';

export type RecordStores = ReadonlyMap<string, RecordStore>;

export interface ExportOptions {
  user?: string | null | undefined;
  domains?: readonly TransferDomain[] | undefined;
  withSecrets?: boolean | undefined;
}

export interface ExportContext {
  stores: RecordStores;
  storeId: string;
  nowMs: number;
  pageItems: number;
}

export async function* exportLines(
  { stores, storeId, nowMs, pageItems }: ExportContext,
  options: ExportOptions,
): AsyncGenerator<string> {
  const scope = { user: options.user ?? null, withSecrets: options.withSecrets ?? false };
  const domains = domainsOf(options, scope.user);
  const kinds = recordKinds.filter(({ domain }) => domains.includes(domain));
  const hash = createHash('sha256');
  const counts: Record<string, number> = {};
  const slices = new Slices();
  const lineOf = (record: TransferRecord): string => {
    const line = `${JSON.stringify(record)}\n`;
    hash.update(line);
    return line;
  };
  const header: Header = {
    type: 'stoa.export',
    format: formatName,
    version: formatVersion,
    exported_at: new Date(nowMs).toISOString(),
    store: storeId,
    domains,
    user: scope.user,
    with_secrets: scope.withSecrets,
  };
  yield lineOf(header);
  for (const { type } of kinds) {
    const store = stores.get(type) as RecordStore;
    counts[type] = 0;
    let after: string | null = null;
    do {
      const page = await store.page(scope, after, pageItems);
      for (const record of page.records) {
        yield lineOf(record);
        await slices.pause();
      }
      counts[type] += page.records.length;
      after = page.after;
      await slices.pause();
    } while (after !== null);
  }
  yield `${JSON.stringify({ type: 'stoa.end', counts, sha256: hash.digest('hex') } satisfies Trailer)}\n`;
}

/** Rooms and identities belong to no user: an export of one user is without them. */
function domainsOf({ domains }: ExportOptions, user: string | null): TransferDomain[] {
  if (user !== null && domains?.includes('messaging') === true) {
    throw new StoaError(
      'invalid_request',
      'The export is of one user, and messaging does not belong to one user.',
      { fix: 'Export it without --user.' },
    );
  }
  const wanted = domains ?? transferDomains;
  return transferDomains.filter(
    (domain) => wanted.includes(domain) && (user === null || domain !== 'messaging'),
  );
}
