/**
 * Lets all documents of a namespace wait for vectors, or removes their vectors, in steps that other writes
 * fit between.
 */
import { dataFamilies, namespaceKey } from '../../datastore/rows.js';
import { decodeSettings, readSettings } from '../../datastore/settings.js';
import { prefixRange } from '../../kernel/engine.js';
import type { Store } from '../../kernel/store.js';
import { removeVector, vectorFamilies as families, waitForVector } from './rows.js';

/** Rows of one transaction, which other writes wait for. */
const rowsPerStep = 256;

/**
 * Carries out the note of a namespace, which has an empty key. An interruption begins again; a step that is
 * done twice changes nothing.
 */
export async function spreadNamespace(store: Store, noteKey: Buffer, stamp: Buffer): Promise<void> {
  const { gte, lt } = prefixRange(noteKey);
  for (let after: Buffer | undefined; ;) {
    const start = after === undefined ? { gte: gte as Buffer } : { gt: after };
    const isDone = await store.transact((tx) => {
      const { embed } = readSettings(tx, noteKey.subarray(0, -1));
      const family = embed ? dataFamilies.documents : families.vectors;
      const keys = Array.from(
        tx.range(family, { ...start, ...(lt && { lt }), limit: rowsPerStep }),
        ({ key }) => key,
      );
      for (const key of keys) {
        if (!embed) removeVector(tx, key);
        else if (tx.get(families.waiting, key) === undefined) waitForVector(tx, key);
      }
      after = keys.at(-1);
      if (keys.length === rowsPerStep) return false;
      // The settings changed meanwhile: the new note is carried out from its beginning.
      if (tx.get(families.waiting, noteKey)?.equals(stamp) === true) tx.delete(families.waiting, noteKey);
      return true;
    });
    if (isDone) return;
  }
}

/** Notes every namespace that asks for vectors. */
export async function waitAllIn(stores: readonly Store[]): Promise<void> {
  for (const store of stores) {
    for (let after: Buffer | undefined; ;) {
      const start = after === undefined ? {} : { gt: after };
      const rows = [...store.range(dataFamilies.settings, { ...start, limit: rowsPerStep })];
      await store.transact((tx) => {
        for (const { value } of rows) {
          const row = decodeSettings(value);
          if (row.settings.embed) waitForVector(tx, Buffer.concat([namespaceKey(row), Buffer.of(0)]));
        }
      });
      after = rows.at(-1)?.key;
      if (rows.length < rowsPerStep) break;
    }
  }
}
