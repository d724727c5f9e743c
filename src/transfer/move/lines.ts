/** Records that no export has: a move takes them from home to home. */
import type { NamespaceSettings } from '../../datastore/namespaces/namespace-settings.js';
import type { TokenRecord } from '../../identity/tokens.js';
import type { Lock } from '../../locks/model.js';
import type { TransferRecord } from '../model.js';

/** A token by its hash. */
export interface TokenLine extends TransferRecord, TokenRecord {
  type: 'identity.token';
  lastUsedAtMs: number | null;
}

/**
 * A lock that an agent holds. An export does not contain locks, because their holders would not know about
 * the copy.
 */
export interface LockLine extends TransferRecord, Lock {
  type: 'locks.lock';
}

/** The last fence that was given out for a lock of the user: the next one must be higher. */
export interface LockFenceLine extends TransferRecord {
  type: 'locks.fence';
  user: string;
  fence: number;
}

/** The settings of a namespace. An export of documents has none. */
export interface NamespaceSettingsLine extends TransferRecord {
  type: 'data.settings';
  user: string;
  namespace: string;
  settings: NamespaceSettings;
}

/** An agent that read or wrote a namespace which has documents. */
export interface NamespaceAgentLine extends TransferRecord {
  type: 'data.agent';
  user: string;
  namespace: string;
  agent: string;
}

/** The secret key of an identity that the server signs for. */
export interface KeptSeedLine extends TransferRecord {
  type: 'messaging.seed';
  /** The hash of user and agent name, in hex. */
  owner: string;
  identity: string;
  /** Plain: each home seals it with its own key. */
  seed: string;
}
