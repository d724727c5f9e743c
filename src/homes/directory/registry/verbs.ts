/** The registry's verbs over an open transaction, and the timers that call them. */
import type { Kernel } from '../kernel/kernel.js';
import { RecentAgents } from '../../../registry/recent-agents.js';
import { AgentVerbs } from './agents.js';
import { LeaseVerbs } from './leases.js';
import { SessionVerbs } from './sessions.js';
import { activityTimer, leaseTimer } from './timers.js';
import { UserVerbs } from './users.js';

export class RegistryVerbs {
  readonly users: UserVerbs;
  readonly leases: LeaseVerbs;
  readonly agents: AgentVerbs;
  readonly sessions: SessionVerbs;
  /** The agents that were at work a moment ago. */
  readonly recent: RecentAgents;

  constructor(kernel: Kernel) {
    const { limits } = kernel;
    const outages = () => kernel.outages;
    this.users = new UserVerbs(limits);
    this.recent = new RecentAgents(limits);
    const { recent } = this;
    this.leases = new LeaseVerbs(limits, outages, recent);
    this.agents = new AgentVerbs({ limits, outages, users: this.users, leases: this.leases, recent });
    this.sessions = new SessionVerbs(this.agents, this.leases);
    kernel.handleTimer(leaseTimer, (tx, reference) => this.leases.onTimer(tx, reference));
    kernel.handleTimer(activityTimer, (tx, reference) => this.agents.onTimer(tx, reference));
  }
}
