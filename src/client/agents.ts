/** The registry through a server: agents, agent sessions, and leases that renew themselves. */
import type { AnswerOf, CallSettings } from '../api/call.js';
import { agents, links } from '../api/registry/operations.js';
import type { StoaError } from '../core/errors.js';
import type { LinkConsent } from './agent.js';
import { type Methods, methodsOf } from './methods.js';
import { type LostEvent, Renewal } from './renewal.js';
import type { Transport } from './transport/transport.js';

type LeaseAnswer = AnswerOf<'agents.heartbeat'>['lease'];
/** An identity that is linked to an agent. */
export type IdentityLink = AnswerOf<'links.set'>;

export interface KeepAliveSettings {
  /** The name of the lease holder; the default is the caller. */
  holder?: string | undefined;
  /** Called once when the lease is lost, as a listener of `lost` is. The work that it guards must stop. */
  onLost?: ((reason: StoaError) => void) | undefined;
  /** Ends the renewals, as `stop` does. */
  signal?: AbortSignal | undefined;
}

/**
 * A lease that renews itself until it is stopped or lost. A lost lease dispatches `lost` and aborts its
 * signal.
 */
export class LiveLease extends Renewal {
  readonly #lease: () => LeaseAnswer;

  constructor(
    life: { lifeMs: number; takenMs: number },
    lease: () => LeaseAnswer,
    renew: (signal: AbortSignal) => Promise<{ lifeMs: number }>,
  ) {
    super(life, renew);
    this.#lease = lease;
  }

  /** The newest answer of the server. */
  get lease(): LeaseAnswer {
    return this.#lease();
  }

  /** Send this number with writes: the writes of a former holder are refused. */
  get fence(): number {
    return this.#lease().fence;
  }

  stop(): void {
    this.stopRenewing();
  }
}

export interface AgentsClient extends Methods<'agents'> {
  /**
   * Takes the lease of an agent and renews it three times in its life. While the server is unreachable, it
   * tries again. The lease is lost when it has expired or another holder has it.
   *
   * @example
   * const lease = await stoa.agents.keepAlive(id);
   * lease.addEventListener('lost', () => process.exit(1));
   */
  keepAlive(id: string, settings?: KeepAliveSettings): Promise<LiveLease>;
  /**
   * Gives a messaging identity access to the data of the agent's user, within the given scopes.
   *
   * @example
   * await stoa.agents.link(id, await scout.consent(id), { namespaces: ['notes'] });
   */
  link(
    id: string,
    consent: LinkConsent,
    settings?: { write?: boolean; namespaces?: string[] | null } & CallSettings,
  ): Promise<IdentityLink>;
  unlink(identity: string, settings?: CallSettings): Promise<undefined>;
}

export function agentsClient(transport: Transport): AgentsClient {
  const calls = methodsOf(transport, 'agents', agents);
  const linkCalls = methodsOf(transport, 'links', links);
  return {
    ...calls,
    keepAlive: async (id, { holder, onLost, signal } = {}) => {
      let lease: LeaseAnswer;
      const beat = async (settings: { fence?: number; signal?: AbortSignal | undefined }) => {
        ({ lease } = await calls.heartbeat(id, { holder }, settings));
        const { last_heartbeat_at: renewedAt } = await calls.get(id, { signal: settings.signal });
        // Both times are the server's, so the clock of this machine does not matter. The first life can be longer than
        // the next: a heartbeat does not end the presence that calls of the agent have given it.
        const renewedMs = renewedAt === null ? Date.now() : Date.parse(renewedAt);
        return { lifeMs: Date.parse(lease.expires_at) - renewedMs };
      };
      const takenMs = performance.now();
      const { lifeMs } = await beat({ signal });
      const live = new LiveLease(
        { lifeMs, takenMs },
        () => lease,
        (ended) => beat({ fence: lease.fence, signal: ended }),
      );
      // A renewal dispatches no other event.
      if (onLost !== undefined) live.addEventListener('lost', (event) => onLost((event as LostEvent).error));
      signal?.addEventListener('abort', () => live.stop(), { once: true });
      return live;
    },
    link: (id, { identity, ...consent }, { signal, ...scopes } = {}) =>
      linkCalls.set(identity, { agent_id: id, ...scopes, consent }, { signal }),
    unlink: (identity, settings) => linkCalls.delete(identity, settings),
  };
}
