/** Copies every document from one backend to another, then checks that both have the same documents. */
import { StoaError, messageOf } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { documentId } from '../documents/document-id.js';
import { isLive } from '../documents/merge-document.js';
import type { DocumentRecord, Scope } from '../model.js';
import { operatorCaller } from '../../core/caller.js';
import type { DataCapabilities, Documents, DocumentReads } from '../port.js';
import { contentHash, isOversized, whyTooLarge } from './transfer.js';

export interface MoveOptions {
  from: DocumentReads;
  to: Documents;
  limits: Limits;
  /** Where an earlier run ended; null begins at the first document. */
  after?: string | null;
  /** Called after each step with the progress and the position where a next run can continue. */
  onStep?: (step: MoveStep) => void | Promise<void>;
}

interface MoveStep {
  phase: 'counting' | 'copying' | 'verifying';
  done: number;
  /** Null while the documents are counted. */
  total: number | null;
  /** While copying: the position up to which everything is copied. */
  after: string | null;
}

/** The number of documents on one side, and a hash that does not depend on their order. */
export interface Side {
  documents: number;
  hash: string;
}

export interface MoveResult {
  documents: number;
  copied: number;
  from: Side;
  to: Side;
  /** Both sides have the documents of the source, with the same content. */
  verified: boolean;
  /**
   * Documents on the target that the source does not have: they existed before, or were written during the
   * move.
   */
  others: number;
  /** Documents over the value limit. They are moved, and reported. */
  oversized: string[];
  /** Documents that the target refused, with the reason. */
  refused: { id: string; reason: string }[];
  /** Documents that differ or are missing on the target; at most 100 are named. */
  different: string[];
}

const stepMax = 100;
const namedMax = 100;

/** A dry run: counts the documents and those that are too large. It does not ask the target. */
export async function surveyDocuments(
  { from, limits, onStep }: Omit<MoveOptions, 'to'>,
  target: Pick<DataCapabilities, 'backend' | 'valueBytesMax'>,
): Promise<Pick<MoveResult, 'documents' | 'oversized' | 'refused'>> {
  const found: Awaited<ReturnType<typeof surveyDocuments>> = { documents: 0, oversized: [], refused: [] };
  for await (const { documents } of pagesOf(from, null)) {
    found.documents += documents.length;
    for (const record of documents) {
      if (isOversized(record, limits)) found.oversized.push(idOf(record));
      const reason = whyTooLarge(record, target);
      if (reason !== undefined) found.refused.push({ id: idOf(record), reason });
    }
    await onStep?.({ phase: 'counting', done: found.documents, total: null, after: null });
  }
  return found;
}

export async function moveDocuments(options: MoveOptions): Promise<MoveResult> {
  const { from, to, onStep } = options;
  const { documents: total, oversized } = await surveyDocuments(options, to.port.capabilities);
  const result: MoveResult = {
    documents: total,
    copied: 0,
    from: noSide,
    to: noSide,
    verified: false,
    others: 0,
    oversized,
    refused: [],
    different: [],
  };
  for await (const { documents, after } of pagesOf(from, options.after ?? null)) {
    result.copied += await restoreEach(to, documents, result.refused);
    await onStep?.({ phase: 'copying', done: result.copied, total: result.documents, after });
  }
  return verify(options, result);
}

async function verify({ from, to, onStep }: MoveOptions, result: MoveResult): Promise<MoveResult> {
  const [source, target] = [new SideSum(), new SideSum()];
  for await (const { documents } of pagesOf(from, null)) {
    const found = await sameDocuments(to.port, documents);
    for (const [index, record] of documents.entries()) {
      // The document expired while the other side was read.
      if (!isLive(record, Date.now())) continue;
      const copy = found[index];
      const hash = contentHash(record);
      source.add(hash);
      const copyHash = copy === undefined ? undefined : contentHash(copy);
      if (copyHash !== undefined) target.add(copyHash);
      if (copyHash?.equals(hash) !== true && result.different.length < namedMax)
        result.different.push(idOf(record));
    }
    await onStep?.({ phase: 'verifying', done: source.count, total: result.documents, after: null });
  }
  const sides = { from: source.side(), to: target.side() };
  const others = Math.max(0, (await countOf(to.port)) - sides.to.documents);
  return {
    ...result,
    ...sides,
    others,
    verified:
      sides.from.hash === sides.to.hash &&
      sides.from.documents === sides.to.documents &&
      result.different.length === 0,
  };
}

async function countOf(port: DocumentReads): Promise<number> {
  let count = 0;
  for await (const { documents } of pagesOf(port, null)) count += documents.length;
  return count;
}

async function* pagesOf(
  port: DocumentReads,
  start: string | null,
): AsyncGenerator<{ documents: DocumentRecord[]; after: string | null }> {
  let after = start;
  do {
    const page = await port.exportPage(after, stepMax);
    yield page;
    after = page.after;
  } while (after !== null);
}

/**
 * Writes the whole step at once. If the target refuses it, writes the documents one by one, so that one bad
 * document does not stop the others.
 */
async function restoreEach(
  to: Documents,
  documents: readonly DocumentRecord[],
  refused: MoveResult['refused'],
): Promise<number> {
  try {
    await restore(to, documents);
    return documents.length;
  } catch (error) {
    if (isUnavailable(error)) throw error;
  }
  let restored = 0;
  for (const record of documents) {
    try {
      await restore(to, [record]);
      restored += 1;
    } catch (error) {
      if (isUnavailable(error)) throw error;
      refused.push({ id: idOf(record), reason: messageOf(error) });
    }
  }
  return restored;
}

async function restore({ port, writer }: Documents, documents: readonly DocumentRecord[]): Promise<void> {
  for (const step of port.restore(documents)) await writer.write({ caller: operatorCaller() }, [step]);
}

async function sameDocuments(
  to: DocumentReads,
  documents: readonly DocumentRecord[],
): Promise<(DocumentRecord | undefined)[]> {
  const found = Array<DocumentRecord | undefined>(documents.length).fill(undefined);
  const scopes = new Map<string, { scope: Scope; indexes: number[] }>();
  for (const [index, { userId, namespace }] of documents.entries()) {
    const name = JSON.stringify([userId, namespace]);
    const entry = scopes.get(name) ?? { scope: { user: userId, namespace }, indexes: [] };
    entry.indexes.push(index);
    scopes.set(name, entry);
  }
  for (const { scope, indexes } of scopes.values()) {
    const copies = await to.getMany(
      scope,
      indexes.map((index) => (documents[index] as DocumentRecord).key),
    );
    for (const [position, index] of indexes.entries()) found[index] = copies[position];
  }
  return found;
}

function isUnavailable(error: unknown): boolean {
  return (
    error instanceof StoaError &&
    (error.code === 'backend_unavailable' ||
      error.code === 'writes_stopped' ||
      error.code === 'disk_full' ||
      error.code === 'closed')
  );
}

function idOf(record: DocumentRecord): string {
  return documentId(record.userId, record.namespace, record.key);
}

const noSide: Side = { documents: 0, hash: '' };

/** Hashes added up: the order in which a backend lists its records does not matter. */
export class SideSum {
  count = 0;
  #sum = 0n;

  add(hash: Buffer): void {
    this.count += 1;
    this.#sum = BigInt.asUintN(256, this.#sum + BigInt(`0x${hash.toString('hex')}`));
  }

  side(): Side {
    return { documents: this.count, hash: this.#sum.toString(16).padStart(64, '0') };
  }
}
