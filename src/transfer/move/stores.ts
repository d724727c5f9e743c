/** One side of a move: every kind of record, in the order in which records need each other. */
import { createHash } from 'node:crypto';
import { operatorCaller } from '../../core/caller.js';
import { StoaError } from '../../core/errors.js';
import type { JsonValue, DocumentRecord } from '../../datastore/model.js';
import type { Documents } from '../../datastore/port.js';
import { contentHash, sorted } from '../../datastore/transfer/transfer.js';
import type { MessagingPort } from '../../messaging/port.js';
import type { TransferRecord } from '../model.js';
import type { ExportScope, RecordPage, RecordStore } from '../port.js';
import type { HomeMove } from './port.js';

/** The records of one type in a home. */
export interface MoveStore<Kind extends TransferRecord = TransferRecord> {
  page(after: string | null, limit: number): Promise<RecordPage<Kind>>;
  /** One transaction, or one for each shard. Writing the same records again changes nothing. */
  write(records: readonly Kind[]): Promise<void>;
  /** Of all that a move must keep. */
  hashOf(record: Kind): Buffer;
  sizeOf(record: Kind): number;
}

/** Each refers only to types before it. */
export const movedTypes = [
  'registry.user',
  'registry.agent',
  'registry.session',
  'registry.link',
  'identity.token',
  'data.document',
  'data.agent',
  'workspaces.workspace',
  'workspaces.project',
  'workspaces.session',
  'workspaces.task',
  'data.settings',
  'locks.fence',
  'locks.lock',
  'messaging.identity',
  'messaging.seed',
  'messaging.room',
  'messaging.message',
  'messaging.direct',
] as const;

export type MovedType = (typeof movedTypes)[number];

export interface MoveSide {
  /** For people, without a password. */
  readonly place: string;
  /** Names the state. */
  readonly id: string;
  readonly move: HomeMove;
  readonly stores: Readonly<Record<MovedType, MoveStore>>;
  /** Blocked addresses are kept there. */
  readonly messaging: Pick<MessagingPort, 'block' | 'blocks'>;
}

/** What a side is made of: a home, opened for a move. */
export interface MovedHome {
  readonly id: string;
  readonly move: HomeMove;
  readonly data: Documents['port'];
  readonly writer: Documents['writer'];
  readonly messaging: MessagingPort;
  records(): [type: string, store: RecordStore][];
}

export function moveSide(place: string, home: MovedHome): MoveSide {
  const { id, move, data, writer, messaging } = home;
  const records = new Map([...home.records(), ...move.records()]);
  const stores = Object.fromEntries(
    movedTypes.map((type): [string, MoveStore] => [
      type,
      type === 'data.document'
        ? new MovedDocuments({ port: data, writer })
        : new MovedRecords(records.get(type) as RecordStore), // Every home has a store of each other type.
    ]),
  );
  // `movedTypes` gave the names.
  return { place, id, move, stores: stores as MoveSide['stores'], messaging };
}

/** Everything of everybody. */
const scope: ExportScope = { user: null, withSecrets: true, whole: true };

class MovedRecords implements MoveStore {
  readonly #store: RecordStore;

  constructor(store: RecordStore) {
    this.#store = store;
  }

  page(after: string | null, limit: number): Promise<RecordPage<TransferRecord>> {
    return this.#store.page(scope, after, limit);
  }

  async write(records: readonly TransferRecord[]): Promise<void> {
    const outcomes = await this.#store.write(records, 'replace');
    const skipped = records[outcomes.indexOf('skipped')];
    if (skipped === undefined) return;
    const verdict = await this.#store.judge(skipped, {
      references: false,
      newBefore: 0,
      agentsMax: undefined,
    });
    const reason = typeof verdict === 'string' ? 'Another program writes to it.' : verdict.detail;
    throw new StoaError('conflict', `The target refused a record of ${skipped.type}. ${reason}`, {
      fix: 'Make the limits of both sides the same, and make sure that nothing else uses the target. Then run the move again.',
    });
  }

  hashOf(record: TransferRecord): Buffer {
    // A record is JSON with some members that have no value.
    const plain = JSON.parse(JSON.stringify(record)) as JsonValue;
    return createHash('sha256')
      .update(JSON.stringify(sorted(plain)))
      .digest();
  }

  sizeOf(record: TransferRecord): number {
    return JSON.stringify(record).length;
  }
}

interface MovedDocument extends TransferRecord {
  document: DocumentRecord;
}

/** Documents in the home itself. Those in a store beside it stay there. */
class MovedDocuments implements MoveStore<MovedDocument> {
  readonly #documents: Documents;

  constructor(documents: Documents) {
    this.#documents = documents;
  }

  async page(after: string | null, limit: number): Promise<RecordPage<MovedDocument>> {
    const page = await this.#documents.port.exportPage(after, limit);
    return {
      records: page.documents.map((document) => ({ type: 'data.document', document })),
      after: page.after,
    };
  }

  async write(records: readonly MovedDocument[]): Promise<void> {
    const { port, writer } = this.#documents;
    const steps = port.restore(
      records.map(({ document }) => document),
      { isCounted: true },
    );
    for (const step of steps) await writer.write({ caller: operatorCaller() }, [step]);
  }

  hashOf({ document }: MovedDocument): Buffer {
    return contentHash(document);
  }

  sizeOf({ document }: MovedDocument): number {
    return document.valueJson.length;
  }
}
