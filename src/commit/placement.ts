/** Which home a commit runs in: the one that keeps every domain it touches. */
import type { Caller } from '../core/caller.js';
import type { Step, Writer } from '../core/write.js';
import { StoaError } from '../core/errors.js';
import type { MessageOperation } from './operations.js';
import type { Check, Operation } from './schemas.js';

const domains = ['data', 'registry', 'workspaces', 'messaging'] as const;
export type CommitDomain = (typeof domains)[number];

/** Where the records of a domain are kept. */
export interface DomainPlace {
  /** For messages: `embedded`, `postgres`, `couchdb` … */
  readonly backend: string;
  /** Two domains with the same place share a transaction. */
  readonly place: string;
}

/** A message that is prepared: its step, and what must hold before any step runs, like a nonce that is new. */
export interface MessageStep {
  readonly checks: readonly Step<void>[];
  readonly step: Step<unknown>;
}

/** One home that commits can run in. */
export interface CommitHome {
  readonly writer: Writer;
  /** Messages go along wherever they are kept, through an outbox. */
  readonly hasOutbox: boolean;
  /** Prepares the messages of one commit, in order. */
  messages(caller: Caller): (operation: MessageOperation) => Promise<MessageStep>;
  /** What became of messages that were delivered after the write. */
  delivered?(operations: readonly Operation[], results: readonly unknown[]): Promise<unknown[]>;
}

export interface Placement {
  readonly places: Readonly<Record<CommitDomain, DomainPlace>>;
  /** By place; a place that is missing takes no part in commits. */
  readonly homes: ReadonlyMap<string, CommitHome>;
}

/** The home of everything that a commit touches. Refuses before anything has happened where there is no such home. */
export function homeOf(
  { places, homes }: Placement,
  checks: readonly Check[],
  operations: readonly Operation[],
): CommitHome {
  const touched = domainsOf(checks, operations);
  const [first = 'messaging', ...others] = touched.filter((domain) => domain !== 'messaging');
  const outside = touched.find((domain) => !homes.has(places[domain].place));
  const home = homes.get(places[first].place);
  // Said first: committed apart, it would be refused again.
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
    `${named[domain]} is kept in ${backend}, which cannot take part in a commit.`,
    {
      fix: `Keep ${named[domain].toLowerCase()} embedded or in PostgreSQL, or write to it apart from the commit.`,
      details: { domain, backend },
    },
  );
}

function refusal(one: CommitDomain, other: CommitDomain, places: Placement['places']): StoaError {
  const [first, second] = [places[one].backend, places[other].backend];
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
