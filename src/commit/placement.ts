/** Which transaction a commit runs in: that of the one database that keeps every domain it touches. */
import { StoaError } from '../errors.js';
import type { Caller } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency.js';
import type { CommitPort } from './port.js';
import type { Check, Operation } from './schemas.js';

const domains = ['data', 'registry', 'workspaces', 'messaging'] as const;
export type CommitDomain = (typeof domains)[number];

/** Where the records of a domain are kept. */
export interface Home {
  /** For messages: `embedded`, `postgres`, `couchdb` … */
  backend: string;
  /** Two domains with the same place can share a transaction. */
  place: string;
}

/** One transaction that commits can run in. */
export interface CommitPlace {
  port: CommitPort;
  /** Messages go along wherever they are kept, through an outbox. */
  hasOutbox: boolean;
}

export interface PlacedCommitOptions {
  homes: Readonly<Record<CommitDomain, Home>>;
  /** By place; a place that is missing takes no part in commits. */
  places: ReadonlyMap<string, CommitPlace>;
}

/** Sends each commit to its place, or refuses it before anything has happened. */
export class PlacedCommit implements CommitPort {
  readonly #options: PlacedCommitOptions;

  constructor(options: PlacedCommitOptions) {
    this.#options = options;
  }

  async commit(
    caller: Caller,
    checks: readonly Check[],
    operations: readonly Operation[],
    idempotency: Idempotency | null,
  ): Promise<unknown[]> {
    const touched = domainsOf(checks, operations);
    return this.#portOf(touched).commit(caller, checks, operations, idempotency);
  }

  #portOf(touched: readonly CommitDomain[]): CommitPort {
    const { homes, places } = this.#options;
    const stored = touched.filter((domain) => domain !== 'messaging');
    const [first = 'messaging', ...others] = stored;
    const outside = touched.find((domain) => !places.has(homes[domain].place));
    const place = places.get(homes[first].place);
    // Said first: committed apart, it would be refused again.
    if (outside !== undefined || place === undefined) throw this.#cannot(outside ?? first);
    const other = others.find((domain) => homes[domain].place !== homes[first].place);
    if (other !== undefined) throw this.#refusal(first, other);
    if (touched.includes('messaging') && !place.hasOutbox && homes.messaging.place !== homes[first].place)
      throw this.#refusal(first, 'messaging');
    return place.port;
  }

  #cannot(domain: CommitDomain): StoaError {
    const { backend } = this.#options.homes[domain];
    return new StoaError(
      'unsupported',
      `${named[domain]} is kept in ${backend}, which cannot take part in a commit.`,
      {
        fix: `Keep ${named[domain].toLowerCase()} embedded or in PostgreSQL, or write to it apart from the commit.`,
        details: { domain, backend },
      },
    );
  }

  #refusal(one: CommitDomain, other: CommitDomain): StoaError {
    const { homes } = this.#options;
    const [first, second] = [homes[one].backend, homes[other].backend];
    const where = first === second ? 'another database of it' : second;
    return new StoaError(
      'unsupported',
      `One commit cannot hold both: ${named[one].toLowerCase()} is kept in ${first}, ${named[other].toLowerCase()} in ${where}.`,
      {
        fix: fixFor(one, other, first === second),
        details: { [one]: first, [other]: second },
      },
    );
  }
}

function fixFor(one: CommitDomain, other: CommitDomain, isOtherDatabase: boolean): string {
  if (isOtherDatabase) return 'Give both domains the same URL, or commit them apart.';
  if (one === 'registry')
    return `Commit them apart, or keep ${named[other].toLowerCase()} in the data directory, where the registry is.`;
  if (other === 'registry')
    return `Commit them apart, or keep ${named[one].toLowerCase()} in the data directory, where the registry is.`;
  if (other === 'messaging')
    return `Commit them apart, or keep ${named[one].toLowerCase()} in PostgreSQL too: then messages go along through an outbox.`;
  return 'Commit them apart, or keep both domains in the same place.';
}

const named: Readonly<Record<CommitDomain, string>> = {
  data: 'The data store',
  registry: 'The registry',
  workspaces: 'Workspaces',
  messaging: 'Messaging',
};

function domainsOf(checks: readonly Check[], operations: readonly Operation[]): CommitDomain[] {
  const touched = new Set<CommitDomain>([
    ...checks.map(({ check }) => domainOfCheck[check]),
    ...operations.map(({ op }) => domainOfOperation(op)),
  ]);
  return domains.filter((domain) => touched.has(domain));
}

const domainOfCheck: Readonly<Record<Check['check'], CommitDomain>> = {
  data: 'data',
  agent: 'registry',
  lease: 'registry',
  task: 'workspaces',
  claim: 'workspaces',
};

const domainOfNoun = {
  data: 'data',
  agent: 'registry',
  session: 'workspaces',
  task: 'workspaces',
  room: 'messaging',
  dm: 'messaging',
} as const;

function domainOfOperation(op: Operation['op']): CommitDomain {
  // Every operation is a noun of this table, a dot and a verb.
  return domainOfNoun[op.split('.')[0] as keyof typeof domainOfNoun];
}
