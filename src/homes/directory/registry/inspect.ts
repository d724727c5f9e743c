/** The rows of the registry as readable JSON, for `stoa inspect`. */
import { decodeAgent, decodeSession, decodeUser } from '../../../registry/layout/codec.js';
import { sessionIdOf } from '../../../registry/ids.js';
import { countKinds, linkKinds } from '../../../registry/layout/keys.js';
import { agentStateOf, sessionStatusOf } from '../../../registry/model.js';
import type { RowDecoders } from '../kernel/inspect/kernel-rows.js';
import { registryFamilies as families } from './families.js';
import { decodeJson, decodeMeta } from './rows.js';

export const registryRows: RowDecoders = {
  [families.agents]: (_key, value) => decodeAgent(value),
  [families.sessions]: (_key, value) => decodeSession(value),
  [families.users]: (_key, value) => decodeUser(value),
  [families.agentsByStatus]: (key) => ({
    status: agentStateOf(key[0] as number),
    ...userAndAgent(key.subarray(1)),
  }),
  [families.agentsByName]: (key) => ({
    name: key.subarray(0, -65).toString(),
    ...userAndAgent(key.subarray(-64)),
  }),
  [families.agentsByLabel]: (key) => {
    const [name, value] = key.subarray(1, -65).toString().split('\0');
    return { label: name, value: value ?? null, ...userAndAgent(key.subarray(-64)) };
  },
  [families.agentsById]: (key, value) => ({ agent_id: hex(key), user_id: hex(value) }),
  [families.agentMeta]: (key, value) => ({ ...userAndAgent(key), ...decodeMeta(value) }),
  [families.leases]: (key, value) => ({ ...userAndAgent(key), ...decodeJson<object>(value, 'lease') }),
  [families.sessionsByAgent]: (key) => ({
    agent_id: hex(key.subarray(0, 32)),
    session_id: sessionIdOf(key.subarray(32)),
  }),
  [families.sessionsByStatus]: (key) => ({
    status: sessionStatusOf(key[0] as number),
    agent_id: hex(key.subarray(1, 33)),
    session_id: sessionIdOf(key.subarray(33)),
  }),
  [families.counts]: (key, value) => {
    const count = Number(value.readBigUInt64BE(0));
    const id = hex(key.subarray(1));
    if (key[0] === countKinds.agentsOfUser) return { user_id: id, agents: count };
    return key[0] === countKinds.absentOfUser
      ? { user_id: id, absent_agents: count }
      : { user_id: id, deleted_fence: count };
  },
  [families.userNames]: (key, value) => ({ user_id: hex(key), user: value.toString() }),
  [families.userSettings]: (key, value) => ({
    user_id: hex(key),
    ...decodeJson<object>(value, 'user settings'),
  }),
  [families.identityLinks]: (key, value) =>
    key[0] === linkKinds.byAgent
      ? { agent_id: hex(key.subarray(1, 33)), identity: key.subarray(33).toString() }
      : { identity: key.subarray(1).toString(), agent_id: hex(value) },
};

function userAndAgent(key: Buffer): { user_id: string; agent_id: string } {
  return { user_id: hex(key.subarray(0, 32)), agent_id: hex(key.subarray(32)) };
}

function hex(bytes: Buffer): string {
  return bytes.toString('hex');
}
