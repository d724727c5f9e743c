/**
 * From format 1 to 2: agents' meta and leases under user and agent, with the number of sessions in the
 * meta; words of messages in lists by time instead of a row each; the busiest rooms without their counts.
 */
import type { Entry } from '../../kernel/engine.js';
import type { Migration, MigrationPass } from '../../kernel/migrations.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import { agentKey, countKinds, userKeyBytes } from '../../registry/keys.js';
import type { AgentMeta } from '../../registry/model.js';
import { isOldTotals, migrateTotals } from './messaging-totals.js';
import { families as messaging } from './messaging-rows.js';
import { fileWords, idBytes } from './messaging-words.js';
import { registryFamilies as registry } from './registry-families.js';
import { type MetaRow, decodeJson, encodeJson, readCount } from './registry-rows.js';

/** Word, zero, message id → room id. */
const words = 'messaging/words';

/** Under the agent alone, as it was. */
const isUnderAgent = ({ key }: Entry): boolean => key.length === userKeyBytes;

/** The number of an agent's active sessions. */
function sessionCountKey(agent: Buffer): Buffer {
  return Buffer.concat([Buffer.of(countKinds.fenceOfDeleted), agent]);
}

const metas: MigrationPass = {
  family: registry.agentMeta,
  isOld: isUnderAgent,
  migrate: (tx, entries) => {
    for (const { key: agent, value } of entries) {
      const activeSessions = readCount(tx, sessionCountKey(agent));
      moveToOwner(
        tx,
        registry.agentMeta,
        agent,
        encodeJson({ ...decodeJson<AgentMeta>(value, 'agent meta'), activeSessions } satisfies MetaRow),
      );
      tx.delete(registry.counts, sessionCountKey(agent));
    }
  },
};

const leases: MigrationPass = {
  family: registry.leases,
  isOld: isUnderAgent,
  migrate: (tx, entries) => {
    for (const { key: agent, value } of entries) moveToOwner(tx, registry.leases, agent, value);
  },
};

/** A row whose agent is gone led nowhere and goes; one that was written anew since stays as it is. */
function moveToOwner(tx: Transaction, family: string, agent: Buffer, value: Buffer): void {
  tx.delete(family, agent);
  const owner = tx.get(registry.agentsById, agent);
  if (owner === undefined) return;
  const key = agentKey(owner, agent);
  if (tx.get(family, key) === undefined) tx.put(family, key, value);
}

/** Numbers of sessions that no meta row took along. The same kind now counts something of users. */
const counts: MigrationPass = {
  family: registry.counts,
  isOld: ({ key }, reader: Reader) => {
    const id = key.subarray(1);
    return (
      key[0] === countKinds.fenceOfDeleted &&
      reader.get(registry.agentsById, id) !== undefined &&
      reader.get(registry.users, id) === undefined
    );
  },
  migrate: (tx, entries) => {
    for (const { key } of entries) tx.delete(registry.counts, key);
  },
};

const wordRows: MigrationPass = {
  family: words,
  isOld: () => true,
  migrate: (tx, entries, { limits }) => {
    const postings = entries.map(({ key, value }) => ({
      id: key.subarray(-idBytes),
      room: value,
      words: [key.toString('utf8', 0, key.length - idBytes - 1)],
    }));
    fileWords(
      tx,
      postings.toSorted((a, b) => Buffer.compare(a.id, b.id)),
      limits.messageRetentionSeconds,
    );
    for (const { key } of entries) tx.delete(words, key);
  },
};

const totals: MigrationPass = { family: messaging.totals, isOld: isOldTotals, migrate: migrateTotals };

export const toFormat2: Migration = {
  format: 2,
  retiredFamilies: [words],
  passes: [metas, leases, counts, wordRows, totals],
};
