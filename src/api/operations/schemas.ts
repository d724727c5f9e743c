/** The schemas of the operator's operations. */
import { z } from 'zod';
import {
  backupListSchema,
  backupVerdictSchema,
  createdBackupSchema,
  entrySchema,
  examinationSchema,
  statusSchema,
} from '../../operations/schemas.js';
import { transferDomains } from '../../transfer/model.js';
import { importReportSchema } from '../../transfer/schemas.js';
import { pageOf, pageQuery, pathSegment, progressAbout } from '../fields.js';
import type { SchemasOf } from '../operation.js';
import type { backups, blocks, server } from './operations.js';

const directorySchema = z
  .string()
  .min(1)
  .max(4_096)
  .optional()
  .meta({ description: 'An absolute path on the server. The default is `backups` in the data directory.' });

export const ndjson = 'application/x-ndjson';
const flag = z.stringbool().default(false);

const domainsSchema = z
  .string()
  .transform((text) => text.split(','))
  .pipe(z.array(z.enum(transferDomains)).min(1))
  .optional()
  .meta({ description: `Some of ${transferDomains.join(', ')}, separated by commas. The default is all.` });

/** A key of an engine has at most 1,978 bytes; a longer prefix matches nothing. */
const prefixCharactersMax = 2 * 1_978;

export const serverSchemas = {
  status: { answers: { 200: statusSchema } },
  config: {
    description: 'Secrets are replaced by masks. Empty if a program opened this server without settings.',
    answers: {
      200: z
        .object({
          items: z.array(
            z.object({
              name: z.string(),
              value: z.unknown(),
              origin: z.string().describe('A flag, a variable, the path of the file, or `default`'),
              about: z.string(),
            }),
          ),
          next_cursor: z.null(),
        })
        .meta({ id: 'Configuration' }),
    },
  },
  examine: {
    description: 'Works while the store is in use. All findings are counted; only the first are listed.',
    body: z
      .strictObject({ repair: z.boolean().default(false) })
      .default({ repair: false })
      .meta({ id: 'Examine' }),
    answers: {
      200: examinationSchema,
    },
  },
  listFamilies: {
    answers: {
      200: z
        .object({
          items: z.array(
            z.object({ family: z.string(), entries: z.int(), size_bytes: z.int(), estimated: z.boolean() }),
          ),
          next_cursor: z.null(),
        })
        .meta({ id: 'Families' }),
    },
  },
  listEntries: {
    params: z.object({ family: pathSegment }),
    query: z.object({
      ...pageQuery,
      prefix: z
        .string()
        .regex(/^([0-9a-fA-F]{2})*$/, 'must be bytes in hexadecimal')
        .max(prefixCharactersMax)
        .optional()
        .meta({ description: 'Only keys that begin with these bytes, in hexadecimal.' }),
    }),
    answers: {
      200: z
        .object({
          items: z.array(entrySchema),
          next_cursor: z.string().nullable(),
        })
        .meta({ id: 'Entries' }),
    },
  },
  rekey: {
    description:
      'Old keys stay in the key ring, for backups. If the keys come from the environment, no key is ' +
      'created and every secret is re-encrypted with the first key.',
    answers: { 200: z.object({ key_id: z.string(), resealed: z.record(z.string(), z.int()) }) },
  },
  export: {
    description:
      'A header, every record, and a last line with counts and a hash. The operator with `Stoa-User` ' +
      'exports that user. Tokens are never exported; secrets only with `with_secrets`.',
    query: z.object({
      domains: domainsSchema,
      with_secrets: flag.meta({ description: 'Export secrets as plain text.' }),
    }),
    answers: { 200: { contentType: ndjson, about: 'One record on each line.' } },
  },
  import: {
    description:
      'Every line is checked before the first record is written. Records keep their times, versions and ' +
      `counters. ${progressAbout}`,
    query: z.object({
      dry_run: flag.meta({ description: 'Report what would happen, without writing.' }),
      ids: z
        .enum(['keep', 'map'])
        .default('keep')
        .meta({ description: '`map` gives records new ids, which are always the same for the same file.' }),
      on_conflict: z.enum(['fail', 'skip', 'replace']).default('fail'),
      keep_going: flag.meta({ description: 'Skip invalid lines instead of refusing the file.' }),
    }),
    answers: { 200: importReportSchema },
  },
} satisfies SchemasOf<typeof server>;

export const backupSchemas = {
  list: { query: z.strictObject({ directory: directorySchema }), answers: { 200: backupListSchema } },
  create: {
    description: progressAbout,
    body: z
      .strictObject({
        kind: z.enum(['full', 'incremental']).default('full'),
        directory: directorySchema,
        with_key: z.boolean().default(false).meta({
          description: 'Include the key ring: a reader of the backup can then decrypt every secret.',
        }),
      })
      .default({ kind: 'full', with_key: false })
      .meta({ id: 'CreateBackup' }),
    answers: { 201: createdBackupSchema },
  },
  verify: {
    description: `Nothing is restored or changed. ${progressAbout}`,
    body: z.strictObject({ directory: directorySchema }).default({}).meta({ id: 'VerifyBackups' }),
    answers: {
      200: z
        .object({
          items: z.array(backupVerdictSchema),
          next_cursor: z.null(),
        })
        .meta({ id: 'BackupVerdicts' }),
    },
  },
} satisfies SchemasOf<typeof backups>;

export const blockSchemas = {
  list: {
    query: z.object(pageQuery),
    answers: {
      200: pageOf(
        z.object({ ip: z.string(), reason: z.string(), expires_at: z.string() }).meta({ id: 'Block' }),
      ),
    },
  },
  delete: { query: z.object({ ip: z.string().min(1).max(100) }), answers: { 204: null } },
} satisfies SchemasOf<typeof blocks>;
