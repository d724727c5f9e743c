/**
 * The identities of a user's agents, by name or id: of those that receive a message, and of those that are
 * looked up.
 */
import { type Caller, operatorCaller } from '../../core/caller.js';
import { StoaError } from '../../core/errors.js';
import type { AgentLookup } from '../../registry/agent-lookup.js';
import type { Identity } from '../model.js';
import type { KeptFor, MessagingPort } from '../port.js';
import { refuse } from '../refusals.js';
import { userOf } from '../rooms/visibility.js';
import type { Authors, Recipient } from './authors.js';
import { canonicalUuid } from './uuid.js';

export type AgentNames = Pick<AgentLookup, 'identityOf' | 'identitiesOf' | 'get'>;

export interface RecipientsOptions {
  port: Pick<MessagingPort, 'identity' | 'kept'>;
  authors: Authors;
  agents: AgentNames | undefined;
}

/** An agent of a user, or the user itself; with the identity whose key it holds, if there is one. */
interface Named {
  keptFor: KeptFor;
  own: string | undefined;
}

export class Recipients {
  readonly #options: RecipientsOptions;

  constructor(options: RecipientsOptions) {
    this.#options = options;
  }

  /** A message to a name that no agent of the user has is refused. */
  async named(caller: Caller | null, to: string): Promise<Recipient> {
    const id = canonicalUuid(to);
    if (id !== undefined) return { id, keeping: [] };
    const { keptFor, own } = await this.#named(caller, to);
    return own === undefined ? this.#options.authors.recipientOf(keptFor) : { id: own, keeping: [] };
  }

  /** An agent that got its own key reads with it: what is sent to its kept identity goes to the one with the key. */
  async receiving({ id, serverKept, link }: Identity): Promise<string> {
    if (!serverKept || link === null || link.agentName === null) return id;
    return (await this.#options.agents?.identityOf(link.user, link.agentName)) ?? id;
  }

  /** The identity with this id, or of the agent with this name or id. A look makes nothing. */
  async find(caller: Caller, reference: string): Promise<Identity> {
    const { port } = this.#options;
    const id = canonicalUuid(reference);
    if (id !== undefined) {
      const identity = await port.identity(id);
      if (identity === undefined) throw unknownAgent(reference);
      return identity;
    }
    const { keptFor, own } = await this.#named(caller, reference);
    const identity = own === undefined ? (await port.kept(keptFor))?.identity : await port.identity(own);
    if (identity !== undefined) return identity;
    throw new StoaError('not_found', `The agent "${reference.slice(0, 100)}" has no identity yet.`, {
      fix: 'The server makes one with the first message from or to the agent.',
    });
  }

  /** The identities under which an agent writes: with its own keys, and with the key that the server keeps. */
  async identitiesOf(user: string, agent: string): Promise<string[]> {
    const { port, agents } = this.#options;
    const own = (await agents?.identitiesOf(user, agent)) ?? [];
    const kept = await port.kept({ user, agent });
    return kept === undefined ? [...own] : [...own, kept.identity.id];
  }

  async #named(caller: Caller | null, reference: string): Promise<Named> {
    const { agents } = this.#options;
    const user = userOf(caller);
    if (user === null || agents === undefined) throw unknownAgent(reference);
    try {
      // A signed agent, too, knows all agents of its user. An unknown name is refused with a similar one.
      const { record } = await agents.get(operatorCaller(user), reference);
      const own = await agents.identityOf(user, record.name);
      return { keptFor: { user, agent: record.name }, own };
    } catch (error) {
      // A person who writes without an agent has the name of the user.
      if (reference === user && error instanceof StoaError && error.code === 'not_found')
        return { keptFor: { user, agent: null }, own: undefined };
      throw error;
    }
  }
}

function unknownAgent(reference: string): Error {
  return refuse('recipientUnknown', {
    about: `Unknown agent "${reference.slice(0, 100)}".`,
    fix: 'Use the name of one of your agents (list them), or the id of an identity.',
  });
}
