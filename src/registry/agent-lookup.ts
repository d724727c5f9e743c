/** Finds agents by their names and ids, and says in whose name a caller acts. */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import { scopeOf, userOf } from './access.js';
import { hasIdForm, isAgentId } from './ids.js';
import type { AgentView, RegistryPort } from './port.js';
import { agentNotFound, agentSigns, unknownAgent } from './refusals.js';
import { checkAgentName } from './rules.js';

export class AgentLookup {
  readonly #port: RegistryPort;
  readonly #limits: Limits;

  constructor(port: RegistryPort, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  /** The agent with this name or id. Throws `not_found`, with a similar name if there is one. */
  async get(caller: Caller, nameOrId: string): Promise<AgentView> {
    const id = await this.idOf(caller, nameOrId);
    const agent = await this.#port.getAgent(scopeOf(caller, id, this.#limits), id);
    if (agent === undefined) throw agentNotFound(id);
    return agent;
  }

  /** The id of the agent with this name or id. An id is not looked up. */
  async idOf(caller: Caller, nameOrId: string): Promise<string> {
    const lower = nameOrId.toLowerCase();
    if (isAgentId(lower)) return lower;
    // A signed agent sees only itself.
    if (caller.kind === 'agent') {
      if (caller.agentId !== null && nameOrId === caller.agent) return caller.agentId;
      throw unknownAgent(nameOrId, caller.agent === null ? [] : [caller.agent]);
    }
    if (hasIdForm(nameOrId)) throw unknownAgent(nameOrId, []);
    checkAgentName(nameOrId, this.#limits);
    const user = userOf(caller, this.#limits);
    const named = await this.#port.agentNamed(user, nameOrId);
    if (named !== undefined) return named;
    throw unknownAgent(nameOrId, await this.#port.someNames(user, this.#limits.agentNamesComparedMax));
  }

  /**
   * The name of an agent by its name or id. A name is not looked up: what an agent wrote outlives the agent.
   * The id of an identity stays as it is.
   */
  async nameOf(caller: Caller, nameOrId: string): Promise<string> {
    if (isAgentId(nameOrId.toLowerCase())) return (await this.get(caller, nameOrId)).record.name;
    if (!hasIdForm(nameOrId)) checkAgentName(nameOrId, this.#limits);
    return nameOrId;
  }

  /**
   * The caller in the name of an agent, which may be given by its id. A name that no agent has yet is
   * accepted: its first write makes the agent.
   */
  async actingAs(caller: Caller, nameOrId: string | null | undefined): Promise<Caller> {
    if (nameOrId === undefined || nameOrId === null || nameOrId === caller.agent) return caller;
    if (caller.kind === 'agent') {
      if (nameOrId.toLowerCase() === caller.agentId) return caller;
      throw new StoaError('forbidden', `The request is signed by another agent than "${nameOrId}".`, {
        fix: 'Leave out the agent, or sign the request with its key.',
      });
    }
    // An operator that names no user acts for the default user, not for the owner of any agent.
    const agent = await this.nameOf({ ...caller, everyUser: false }, nameOrId);
    checkAgentName(agent, this.#limits);
    const acting = { ...caller, agent };
    await this.checkOwnName(acting);
    return acting;
  }

  /** The caller of a request: an id in Stoa-Agent becomes the name of its agent. Nearly no caller waits. */
  named(caller: Caller): Caller | Promise<Caller> {
    const { kind, agent } = caller;
    if (kind !== 'agent' && agent !== null && isAgentId(agent.toLowerCase()))
      return this.actingAs({ ...caller, agent: null }, agent);
    const checked = this.checkOwnName(caller);
    return checked instanceof Promise ? checked.then(() => caller) : caller;
  }

  /**
   * The name under which an agent holds tasks, for a filter by holder. A user holds tasks under its own id
   * when it names no agent. The operator may mean an agent of any user.
   */
  async holderNamed(caller: Caller, nameOrId: string | undefined): Promise<string | undefined> {
    if (nameOrId === undefined || nameOrId === caller.user) return nameOrId;
    if (isAgentId(nameOrId.toLowerCase())) return (await this.get(caller, nameOrId)).record.name;
    // A signed agent sees the tasks of its user, but not the records of other agents.
    if (!caller.everyUser && caller.kind !== 'agent') await this.idOf(caller, nameOrId);
    return nameOrId;
  }

  /** The identity that speaks for an agent, by its name or id; undefined for an agent without a key. */
  async identityOf(user: string, agent: string): Promise<string | undefined> {
    return (await this.identitiesOf(user, agent))[0];
  }

  /** All identities that speak for an agent with their own keys. */
  async identitiesOf(user: string, agent: string): Promise<readonly string[]> {
    return this.#port.identitiesOf(user, agent);
  }

  /** Throws if a token uses the name of an agent with a key: acts under that name must be signed. */
  checkOwnName({ kind, user, agent }: Pick<Caller, 'kind' | 'user' | 'agent'>): void | Promise<void> {
    if (kind === 'agent' || agent === null) return undefined;
    const identities = this.#port.identitiesOf(user, agent);
    return identities instanceof Promise
      ? identities.then((found) => refuseOwnName(agent, found))
      : refuseOwnName(agent, identities);
  }
}

function refuseOwnName(agent: string, identities: readonly string[]): void {
  if (identities.length > 0) throw agentSigns(agent);
}
