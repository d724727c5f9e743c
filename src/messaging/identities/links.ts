/** Links of messaging identities to agents. One write changes both the registry and messaging. */
import { type Caller, operatorCaller } from '../../core/caller.js';
import { type Step, type Writer, prepareAndWrite } from '../../core/write.js';
import type { LinkConsent } from './identities.js';
import type { Identity, IdentityLink } from '../model.js';
import type { MessagingService } from '../service.js';
import type { RegistryService } from '../../registry/service.js';

export interface IdentityLinksOptions {
  writer: Writer;
  registry: RegistryService;
  messaging: Pick<MessagingService, 'port' | 'identities'>;
}

export interface LinkInput {
  agent_id: string;
  write: boolean;
  namespaces: string[] | null;
  consent?: LinkConsent | undefined;
}

export interface LinkedIdentity {
  identity: string;
  link: IdentityLink;
}

export class IdentityLinks {
  readonly #options: IdentityLinksOptions;

  constructor(options: IdentityLinksOptions) {
    this.#options = options;
  }

  /**
   * Gives the identity access to the data of its user, in the name of an agent. An earlier link is replaced.
   */
  link(caller: Caller, id: string, input: LinkInput): Promise<LinkedIdentity> {
    const { registry, messaging } = this.#options;
    return prepareAndWrite(async () => {
      const agent = await registry.getAgent(caller, input.agent_id);
      const link: IdentityLink & { agentId: string; agentName: string } = {
        user: agent.user,
        agentId: agent.agent_id,
        agentName: agent.name,
        write: input.write,
        namespaces: input.namespaces,
        linkedAtMs: messaging.port.nowMs(),
      };
      const before = await messaging.identities.checkLink(caller, id, link, input.consent ?? null);
      const known = await registry.linkedAgent(before.id);
      const replaced =
        known === null || known.agent_id === agent.agent_id
          ? []
          : [registry.steps.unlinkIdentity(operatorCaller(), before.id)];
      const linking = registry.steps.linkIdentity(caller, agent.agent_id, before.id);
      await this.#write(caller, [...replaced, linking], before, link);
      return { identity: before.id, link };
    });
  }

  unlink(caller: Caller, id: string): Promise<{ identity: string }> {
    const { registry, messaging } = this.#options;
    return prepareAndWrite(async () => {
      const before = await messaging.identities.checkUnlink(caller, id);
      await this.#write(caller, [registry.steps.unlinkIdentity(operatorCaller(), before.id)], before, null);
      return { identity: before.id };
    });
  }

  /** The link of the registry and that of messaging are one write. */
  async #write(
    caller: Caller,
    steps: readonly Step<unknown>[],
    before: Identity,
    link: IdentityLink | null,
  ): Promise<void> {
    const { writer, messaging } = this.#options;
    await writer.write({ caller }, [...steps, messaging.port.link(before, link)]);
  }
}
