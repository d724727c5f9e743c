/** The identity that receives a direct message, by its id or by the name of one of the caller's agents. */
import { type Caller, operatorCaller } from '../../core/caller.js';
import type { AgentLookup } from '../../registry/agent-lookup.js';
import { refuse } from '../refusals.js';
import { userOf } from '../rooms/visibility.js';
import type { Authors } from './authors.js';
import { canonicalUuid } from './uuid.js';

export type AgentNames = Pick<AgentLookup, 'identityOf' | 'get'>;

export interface RecipientsOptions {
  authors: Authors;
  agents: AgentNames | undefined;
}

export class Recipients {
  readonly #options: RecipientsOptions;

  constructor(options: RecipientsOptions) {
    this.#options = options;
  }

  /** A message to a name that no agent of the user has is refused. */
  async idOf(caller: Caller | null, to: string): Promise<string> {
    const id = canonicalUuid(to);
    if (id !== undefined) return id;
    const { authors, agents } = this.#options;
    const user = userOf(caller);
    if (caller === null || user === null || agents === undefined) throw unknownRecipient(to);
    // A signed agent, too, writes to all agents of its user. An unknown name is refused with a similar one.
    const { record } = await agents.get(operatorCaller(user), to);
    const own = await agents.identityOf(user, record.name);
    return own ?? authors.recipientOf({ user, agent: record.name });
  }
}

function unknownRecipient(to: string): Error {
  return refuse('recipientUnknown', {
    about: `Unknown agent "${to.slice(0, 100)}".`,
    fix: 'Use the name of one of your agents ("stoa agents ls"), or the id of an identity.',
    details: { field: 'to' },
  });
}
