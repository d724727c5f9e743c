/** Chooses the home of a commit: the one that stores every domain of the commit. */
import type { Caller } from '../core/caller.js';
import type { Step, Writer } from '../core/write.js';
import { StoaError } from '../core/errors.js';
import type { MessageOperation } from './operations.js';
import type { Check, Operation } from './schemas.js';

const domains = ['data', 'registry', 'workspaces', 'messaging'] as const;
export type CommitDomain = (typeof domains)[number];

/** Where the records of a domain are kept. */
export interface DomainPlace {
  /** For errors: `embedded`, `postgres`, `couchdb` … */
  readonly backend: string;
  /** Two domains with the same place share a transaction. */
  readonly place: string;
}

/** A prepared message: its step, and the checks before any step runs, such as that a nonce is new. */
export interface MessageStep {
  readonly checks: readonly Step<void>[];
  readonly step: Step<unknown>;
}

/** One home that commits can run in. */
export interface CommitHome {
  readonly writer: Writer;
  /** Whether messages can be stored elsewhere: they are then delivered through an outbox. */
  readonly hasOutbox: boolean;
  /** Prepares the messages of one commit, in order. */
  messages(caller: Caller): (operation: MessageOperation) => Promise<MessageStep>;
  /** The results of messages that were delivered after the write. */
  delivered?(operations: readonly Operation[], results: readonly unknown[]): Promise<unknown[]>;
}

export interface Placement {
  readonly places: Readonly<Record<CommitDomain, DomainPlace>>;
  /** By place; a place that is missing does not support commits. */
  readonly homes: ReadonlyMap<string, CommitHome>;
}

/** The home of all domains of a commit. If there is none, it throws before anything has happened. */
export function homeOf(
  { places, homes }: Placement,
  checks: readonly Check[],
  operations: readonly Operation[],
): CommitHome {
  const touched = domainsOf(checks, operations);
  const [first = 'messaging', ...others] = touched.filter((domain) => domain !== 'messaging');
  const outside = touched.find((domain) => !homes.has(places[domain].place));
  const home = homes.get(places[first].place);
  // This error comes first: a commit of this domain alone would be refused too.
  if (outside !== undefined || home === undefined) throw cannot(outside ?? first, places);
  const other = others.find((domain) => places[domain].place !== places[first].place);
  if (other !== undefined) throw refusal(first, other, places);
  const isApart = places.messaging.place !== places[first].place;
  if (touched.includes('messaging') && !home.hasOutbox && isApart) throw refusal(first, 'messaging', places);
  return home;
}

function cannot(domain: CommitDomain, places: Placement['places']): StoaError {
  const { backend } = places[domain];
  return new StoaError(
    'unsupported',
    `${named[domain]} is stored in ${backend}, which does not support commits.`,
    {
      fix: `Store ${named[domain].toLowerCase()} embedded or in PostgreSQL, or write to it outside of the commit.`,
      details: { domain, backend },
    },
  );
}

function refusal(one: CommitDomain, other: CommitDomain, places: Placement['places']): StoaError {
  const [first, second] = [places[one].backend, places[other].backend];
  const where = first === second ? 'another database' : second;
  return new StoaError(
    'unsupported',
    `The commit has operations in two places: ${named[one].toLowerCase()} is stored in ${first}, ${named[other].toLowerCase()} in ${where}.`,
    {
      fix: fixFor(one, other, first === second),
      details: { [one]: first, [other]: second },
    },
  );
}
function fixFor(one: CommitDomain, other: CommitDomain, isOtherDatabase: boolean): string {
  if (isOtherDatabase) return 'Use the same URL for both domains, or send two commits.';
  if (one === 'registry')
    return `Send two commits, or store ${named[other].toLowerCase()} in the data directory, where the registry is.`;
  if (other === 'registry')
    return `Send two commits, or store ${named[one].toLowerCase()} in the data directory, where the registry is.`;
  if (other === 'messaging')
    return `Send two commits, or store ${named[one].toLowerCase()} in PostgreSQL too, where messages are delivered through an outbox.`;
  return 'Send two commits, or store both domains in the same place.';
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
