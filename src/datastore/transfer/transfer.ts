/** Export and import of whole, unchanged documents, and the hash that verifies a move. */
import { createHash } from 'node:crypto';
import { StoaError, messageOf } from '../../core/errors.js';
import { type Caller } from '../../core/caller.js';
import { checkUserId } from '../../identity/user-key.js';
import type { Limits } from '../../core/settings/limits.js';
import {
  type Page,
  type PageRequest,
  decodeTextCursor,
  encodeCursor,
  invalidCursor,
  pageLimit,
} from '../../core/paging.js';
import type { Places } from '../../core/waiting/places.js';
import { Slices } from '../../core/waiting/yielding.js';
import { documentId } from '../documents/document-id.js';
import { ImportQuota } from './import-quota.js';
import { idCollision, sizeOf } from '../documents/merge-document.js';
import type { DocumentRecord, JsonValue, Scope } from '../model.js';
import { checkAgent, checkKey, checkNamespace } from '../names.js';
import { readDocuments } from '../documents/pages.js';
import type { DataCapabilities, Documents, ExportPage } from '../port.js';
import { fromSeedFields } from '../documents/seed-document.js';
import type { DataSteps } from '../steps.js';
import type { AccessTracker } from '../tracking.js';
import { jsonText } from '../documents/json.js';

/** Documents that are read at a time, so that a page of large ones stays small. */
const exportStepMax = 50;
const exportStepBytesMax = 1024 * 1024;

/** Far below the last safe integer, so that an imported count can still grow. */
const importedCountMax = 1e12;

/**
 * A record from a document in the seed's layout. Throws if the document is invalid. Values may be larger than
 * the limit, so that documents of another store can be imported.
 */
function importedRecord(fields: unknown, limits: Limits): DocumentRecord {
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields))
    throw refused('it is not a JSON object');
  const document = fields as Readonly<Record<string, unknown>>;
  // This check comes first: the code below must not walk into a value that is nested too deeply.
  const json =
    document['value'] === undefined ? undefined : jsonText(document['value'], 'value', limits.valueDepthMax);
  let record: DocumentRecord;
  try {
    record = fromSeedFields(document, json);
  } catch (error) {
    throw refused(messageOf(error), error);
  }
  checkUserId(record.userId, limits);
  checkNamespace(record.namespace, limits);
  checkKey(record.key, limits);
  for (const agent of [record.createdByAgent, record.updatedByAgent, record.lastAccessedByAgent])
    if (agent !== null) checkAgent(agent, limits);
  // Version 0 means "no document". A count beyond the last safe integer could not be incremented.
  if (record.version < 1 || Math.max(record.version, record.accessCount) > importedCountMax)
    throw refused(
      `version is ${record.version} and accessCount is ${record.accessCount}; expected 1 to ${importedCountMax} and 0 to ${importedCountMax}`,
    );
  jsonText(record.metadata, 'metadata', limits.valueDepthMax);
  const id = documentId(record.userId, record.namespace, record.key);
  if (document['_id'] !== undefined && document['_id'] !== id)
    throw refused(
      `its _id is ${JSON.stringify(document['_id'])}, but userId, namespace and key make "${id}"`,
    );
  return record;
}

export function isOversized(record: DocumentRecord, limits: Limits): boolean {
  return sizeOf(record) > limits.valueBytesMax;
}

/** Why a document is too large for a database; undefined if it fits. */
export function whyTooLarge(
  record: DocumentRecord,
  { valueBytesMax, backend }: Pick<DataCapabilities, 'backend' | 'valueBytesMax'>,
): string | undefined {
  const sizeBytes = sizeOf(record);
  return valueBytesMax === null || sizeBytes <= valueBytesMax
    ? undefined
    : `its value has ${sizeBytes} bytes, which exceeds the ${valueBytesMax} that ${backend} can store`;
}

/** A hash of everything in a document that a move must keep. The order of members does not matter. */
export function contentHash(record: DocumentRecord): Buffer {
  const { valueJson: json, ...fields } = record;
  return createHash('sha256')
    .update(JSON.stringify(sorted({ ...fields, value: JSON.parse(json) as JsonValue })))
    .digest();
}

/** With the members of every object in one order. */
export function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .map(([name, member]): [string, JsonValue] => [name, sorted(member)])
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
}

export interface DataTransferOptions extends Documents {
  limits: Limits;
  tracker: AccessTracker;
  steps: DataSteps;
  /** Pages are read in these places. */
  reading: Places;
}

export class DataTransfer {
  readonly #options: DataTransferOptions;

  constructor(options: DataTransferOptions) {
    this.#options = options;
  }

  /**
   * Every document of the caller, or of all users if the operator did not name one. Does not count as a read.
   */
  async exportPage(caller: Caller, request: PageRequest = {}): Promise<Page<DocumentRecord>> {
    if (caller.scopes.namespaces !== null)
      throw new StoaError(
        'forbidden',
        'These credentials cannot access every namespace, so they cannot export.',
        { fix: 'Use a token without a list of namespaces.' },
      );
    await this.#options.tracker.flush();
    return this.#options.reading.run(() => this.#exportPage(caller, request), caller.user);
  }

  async #exportPage(caller: Caller, request: PageRequest): Promise<Page<DocumentRecord>> {
    const limit = pageLimit(request.limit, this.#options.limits);
    const list = JSON.stringify(['data', 'export', caller.everyUser ? null : caller.user]);
    const items: DocumentRecord[] = [];
    let after = decodeTextCursor(list, request.cursor);
    let sizeBytes = 0;
    const slices = new Slices();
    do {
      const step = Math.min(limit - items.length, exportStepMax);
      const page = caller.everyUser
        ? await this.#options.port.exportPage(after, step)
        : await this.#exportUser(caller.user, after, step);
      items.push(...page.documents);
      sizeBytes += page.documents.reduce((sum, record) => sum + sizeOf(record), 0);
      after = page.after;
      await slices.pause();
    } while (after !== null && items.length < limit && sizeBytes < this.#options.limits.dataPageBytesMax);
    return { items, next_cursor: after === null ? null : encodeCursor(list, Buffer.from(after)) };
  }

  /** Writes documents unchanged, over existing ones. Writes nothing if one is invalid, or in a dry run. */
  async import(
    caller: Caller,
    documents: readonly unknown[],
    { dryRun = false } = {},
  ): Promise<{ imported: number; oversized: string[] }> {
    this.checkMayImport(caller);
    const { port, limits } = this.#options;
    const ids = new Set<string>();
    const records = documents.map((fields, index) => {
      try {
        const record = this.recordFor(caller, fields);
        const id = port.capabilities.sharedIds
          ? idOf(record)
          : JSON.stringify([record.userId, record.namespace, record.key]);
        if (ids.has(id)) throw refused('the same document appears twice');
        ids.add(id);
        return record;
      } catch (error) {
        throw new StoaError(
          error instanceof StoaError && error.code === 'forbidden' ? error.code : 'invalid_request',
          `Document ${index + 1}: ${messageOf(error)}`,
          { cause: error, details: { index } },
        );
      }
    });
    const [held] = await this.heldByOthers(records);
    if (held !== undefined) throw idCollision(idOf(held));
    await this.quota().add(records);
    const oversized = records.filter((record) => isOversized(record, limits)).map(idOf);
    if (dryRun) return { imported: 0, oversized };
    await this.write(caller, records);
    return { imported: records.length, oversized };
  }

  /** A document records who created and read it, so a signed agent could claim the acts of others. */
  checkMayImport(caller: Caller): void {
    if (caller.kind === 'agent')
      throw new StoaError(
        'forbidden',
        'The request is signed by an agent. An agent cannot import documents.',
        { fix: 'Use a token of the user, or of the operator.' },
      );
    if (!caller.scopes.write || caller.scopes.namespaces !== null)
      throw new StoaError(
        'forbidden',
        'These credentials cannot write to every namespace, so they cannot import.',
        { fix: 'Use a token with the write scope and without a list of namespaces.' },
      );
  }

  /** The record of an imported document. Throws if it cannot be imported. */
  recordFor(caller: Caller, fields: unknown): DocumentRecord {
    const { port, limits } = this.#options;
    const record = importedRecord(fields, limits);
    const tooLarge = whyTooLarge(record, port.capabilities);
    if (tooLarge !== undefined) throw refused(tooLarge);
    if (!caller.everyUser && record.userId !== caller.user)
      throw new StoaError(
        'forbidden',
        `The document belongs to the user "${record.userId}" and cannot be imported for "${caller.user}".`,
      );
    return record;
  }

  heldByOthers(records: readonly DocumentRecord[]): Promise<DocumentRecord[]> {
    return this.#options.port.heldByOthers(records);
  }

  /** Adds up the usage of imported documents, for the quotas. */
  quota(): ImportQuota {
    return new ImportQuota(this.#options.port, this.#options.limits);
  }

  /** Writes documents whose content and quotas were checked before. */
  async write(caller: Caller, records: readonly DocumentRecord[]): Promise<void> {
    const { writer, steps } = this.#options;
    for (const step of steps.restore(records)) await writer.write({ caller }, [step]);
  }

  /** One namespace after the other; the position is a namespace and the last key in it. */
  async #exportUser(user: string, after: string | null, limit: number): Promise<ExportPage> {
    const { port } = this.#options;
    const [namespace, key] = after === null ? [null, null] : placeIn(after, this.#options.limits);
    if (namespace !== null && key !== null) return this.#exportNamespace({ user, namespace }, key, limit);
    const [next] = await port.listNamespaces(user, namespace, 1);
    if (next === undefined) return { documents: [], after: null };
    return this.#exportNamespace({ user, namespace: next.namespace }, null, limit);
  }

  async #exportNamespace(scope: Scope, after: string | null, limit: number): Promise<ExportPage> {
    const { items, ended } = await readDocuments(this.#options.port, exportStepBytesMax, scope, {
      prefix: '',
      after,
      limit,
    });
    const last = ended ? null : (items.at(-1)?.key ?? null);
    return { documents: items, after: JSON.stringify([scope.namespace, last]) };
  }
}

/** A cursor can be forged, so its content is checked like any other input. */
function placeIn(after: string, limits: Limits): readonly [namespace: string, key: string | null] {
  try {
    const place: unknown = JSON.parse(after);
    if (
      Array.isArray(place) &&
      typeof place[0] === 'string' &&
      (place[1] === null || typeof place[1] === 'string')
    ) {
      checkNamespace(place[0], limits);
      if (place[1] !== null) checkKey(place[1], limits);
      return [place[0], place[1]];
    }
  } catch (error) {
    throw invalidCursor(error);
  }
  throw invalidCursor();
}

function idOf({ userId, namespace, key }: DocumentRecord): string {
  return documentId(userId, namespace, key);
}

function refused(reason: string, cause?: unknown): StoaError {
  return new StoaError('invalid_request', `The document cannot be imported: ${reason.replace(/\.$/, '')}.`, {
    cause,
  });
}
