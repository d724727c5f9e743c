/** The reports of imports: the one source for the reference and for types. */
import { z } from 'zod';

const count = z.int().min(0);

/** Why a record cannot simply be written: `exists` has the same id, `name_taken` has its name, key or place. */
const conflictKind = z.enum(['exists', 'name_taken', 'holds_tasks', 'quota', 'orphan']);

export const importReportSchema = z
  .object({
    dry_run: z.boolean(),
    records: count,
    written: count,
    replaced: count,
    same: count.describe('Records that already exist with the same content'),
    skipped: count,
    conflicts: z.array(
      z.object({
        line: count,
        type: z.string(),
        id: z.string(),
        kind: conflictKind,
        detail: z.string(),
      }),
    ),
    conflicts_total: count,
    bad: z.array(z.object({ line: count, reason: z.string() })),
    bad_total: count,
  })
  .meta({ id: 'ImportReport' });

export const documentReportSchema = z
  .object({
    dry_run: z.boolean(),
    lines: z.int(),
    skipped: z.int().describe('Empty lines and design documents of CouchDB'),
    imported: z.int(),
    bad: z.array(z.object({ line: z.int(), reason: z.string() })),
    bad_total: z.int(),
    oversized: z.array(z.int()).describe('Lines of imported documents whose value exceeds the limit'),
    oversized_total: z.int(),
  })
  .meta({ id: 'DocumentLinesReport' });
