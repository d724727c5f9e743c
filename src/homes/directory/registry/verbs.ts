/** The registry's verbs over an open transaction, and the timers that call them. */
import type { Kernel } from '../kernel/kernel.js';
import { AgentVerbs, activityTimer } from './agents.js';
import { LeaseVerbs, leaseTimer } from './leases.js';
import { SessionVerbs } from './sessions.js';
import { UserVerbs } from './users.js';

export class RegistryVerbs {
  readonly users: UserVerbs;
  readonly leases: LeaseVerbs;
  readonly agents: AgentVerbs;
  readonly sessions: SessionVerbs;

  constructor(kernel: Kernel) {
    const { limits } = kernel;
    const outages = () => kernel.outages;
    this.users = new UserVerbs(limits);
    this.leases = new LeaseVerbs(limits, outages);
    this.agents = new AgentVerbs(limits, outages, this.users, this.leases);
    this.sessions = new SessionVerbs(this.agents, this.leases);
    kernel.handleTimer(leaseTimer, (tx, reference) => this.leases.onTimer(tx, reference));
    kernel.handleTimer(activityTimer, (tx, reference) => this.agents.onTimer(tx, reference));
  }
}
