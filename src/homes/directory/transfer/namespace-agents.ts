/** The agents of namespaces in a data directory, as a move takes them. */
import type { NamespaceAgentLine } from '../../../transfer/move/lines.js';
import type { RecordStore } from '../../../transfer/port.js';
import { dataFamilies, decodeDocument, documentKey, namesOf } from '../datastore/rows.js';
import type { Kernel } from '../kernel/kernel.js';
import { prefixRange } from '../kernel/engine.js';
import type { Reader } from '../kernel/transaction.js';
import { FamilyRecords } from './records.js';

export function agentRecordStore(kernel: Kernel): [type: string, store: RecordStore] {
  return [
    'data.agent',
    new FamilyRecords<NamespaceAgentLine>(kernel, {
      family: dataFamilies.agents,
      read: (reader, { key }) => lineOf(reader, key),
      userOf: ({ user }) => user,
      stored: (reader, line) =>
        reader.get(dataFamilies.agents, keyOf(line)) === undefined ? undefined : line,
      put: (tx, line) => tx.put(dataFamilies.agents, keyOf(line), Buffer.alloc(0)),
    }),
  ];
}

function keyOf({ user, namespace, agent }: NamespaceAgentLine): Buffer {
  return documentKey({ user, namespace }, agent);
}

/** The key has only a hash of the user. The documents of the namespace have the name. */
function lineOf(reader: Reader, key: Buffer): NamespaceAgentLine | undefined {
  const { namespace, key: agent } = namesOf(key);
  const inNamespace = prefixRange(key.subarray(0, key.length - Buffer.byteLength(agent)));
  const [first] = reader.range(dataFamilies.documents, { ...inNamespace, limit: 1 });
  if (first === undefined) return undefined;
  return { type: 'data.agent', user: decodeDocument(first.key, first.value, '').userId, namespace, agent };
}
