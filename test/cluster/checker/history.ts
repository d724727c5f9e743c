/**
 * Checks of a whole history against what is stored at its end. Each answers the faults that it found, in
 * words.
 */

/** Something that a client asked to be stored, under a name that no other write has. */
export interface Write {
  readonly name: string;
  /** Unknown: the client got no answer, so that it may be stored or not. */
  readonly outcome: 'accepted' | 'refused' | 'unknown';
}

/** Accepted means stored once, refused means not stored, and nothing is stored that nobody wrote. */
export function writeFaults(what: string, writes: readonly Write[], stored: readonly string[]): string[] {
  const times = countEach(stored);
  const asked = new Set(writes.map(({ name }) => name));
  return [
    ...writes.flatMap(({ name, outcome }) => {
      const found = times.get(name) ?? 0;
      if (outcome === 'accepted' && found === 0) return [`${what} "${name}" was accepted and is lost.`];
      if (outcome === 'refused' && found > 0) return [`${what} "${name}" was refused and is stored.`];
      return found > 1 ? [`${what} "${name}" was asked for once and is stored ${found} times.`] : [];
    }),
    ...[...times.keys()]
      .filter((name) => !asked.has(name))
      .map((name) => `${what} "${name}" is stored, and nobody wrote it.`),
  ];
}

/** One commit of several parts, and which of them are stored. */
export function commitFaults(parts: ReadonlyMap<string, readonly string[]>): string[] {
  const names = new Set([...parts.values()].flat());
  return [...names].flatMap((name) => {
    const missing = [...parts].filter(([, stored]) => !stored.includes(name)).map(([part]) => part);
    return missing.length === 0
      ? []
      : [`The commit "${name}" is torn: its ${missing.join(' and ')} is missing.`];
  });
}

export interface Claim {
  readonly task: string;
  readonly holder: string;
  readonly fence: number;
  readonly calledAtMs: number;
  readonly returnedAtMs: number;
  readonly leaseMs: number;
}

export interface Report {
  readonly task: string;
  readonly fence: number;
  readonly output: string;
  readonly outcome: 'accepted' | 'refused' | 'unknown';
  readonly calledAtMs: number;
}

export interface StoredTask {
  readonly id: string;
  readonly status: string;
  readonly output: string | null;
}

/** Every task ended exactly once, by its holder, and had one holder at a time. */
export function taskFaults(
  claims: readonly Claim[],
  reports: readonly Report[],
  stored: readonly StoredTask[],
): string[] {
  const claimsOf = grouped(claims);
  const reportsOf = grouped(reports);
  return stored.flatMap((task) => [
    ...endFaults(task, reportsOf.get(task.id) ?? []),
    ...holderFaults(task.id, claimsOf.get(task.id) ?? [], reportsOf.get(task.id) ?? []),
  ]);
}

function endFaults({ id, status, output }: StoredTask, reports: readonly Report[]): string[] {
  if (status !== 'completed') return [`Task ${id} is ${status} at the end instead of completed.`];
  const accepted = reports.filter(({ outcome }) => outcome === 'accepted');
  const faults = accepted
    .filter((report) => report.output !== output)
    .map((report) => `Task ${id} accepted the output "${report.output}" and has "${output}".`);
  if (new Set(accepted.map(({ fence }) => fence)).size > 1)
    faults.push(`Task ${id} was completed under more than one fencing number.`);
  if (!reports.some((report) => report.output === output && report.outcome !== 'refused'))
    faults.push(`Task ${id} has the output "${output}", which nobody reported.`);
  return faults;
}

/**
 * For sure a task is held from the claim's answer to the report's request, unless the lease was over before.
 */
function holderFaults(task: string, claims: readonly Claim[], reports: readonly Report[]): string[] {
  const held = claims
    .map(({ holder, fence, calledAtMs, returnedAtMs, leaseMs }) => {
      const reportedAtMs = reports
        .filter((report) => report.fence === fence)
        .map((report) => report.calledAtMs);
      return { holder, fence, fromMs: returnedAtMs, toMs: Math.min(calledAtMs + leaseMs, ...reportedAtMs) };
    })
    .toSorted((one, other) => one.fence - other.fence);
  return held.slice(1).flatMap((later, index) => {
    const earlier = held[index];
    if (earlier === undefined) return [];
    if (earlier.fence === later.fence)
      return [
        `Task ${task} gave the fencing number ${later.fence} to ${earlier.holder} and ${later.holder}.`,
      ];
    return Math.max(earlier.fromMs, later.fromMs) < Math.min(earlier.toMs, later.toMs)
      ? [`Task ${task} was held by ${earlier.holder} and ${later.holder} at the same time.`]
      : [];
  });
}

/** A change as a watcher saw it. */
export interface SeenChange {
  readonly seq: number;
  readonly kind: string;
  readonly id: string;
  readonly version: number | null;
}

/**
 * Every watcher saw what the feed holds: the same changes, each once, in the same order with the same
 * positions.
 */
export function watcherFaults(
  feed: readonly SeenChange[],
  watchers: ReadonlyMap<string, readonly SeenChange[]>,
): string[] {
  return [...watchers].flatMap(([name, seen]) => {
    const length = Math.max(feed.length, seen.length);
    for (let at = 0; at < length; at += 1) {
      const [expected, got] = [changeText(feed[at]), changeText(seen[at])];
      if (expected !== got)
        return [
          `Watcher ${name} saw ${got} where the feed has ${expected} (change ${at + 1} of ${feed.length}).`,
        ];
    }
    return [];
  });
}

/** The versions of one object come in their order, and positions never go back. */
export function feedFaults(feed: readonly SeenChange[]): string[] {
  const versions = new Map<string, number>();
  return feed.flatMap(({ seq, kind, id, version }, index) => {
    const faults = [];
    if (seq < (feed[index - 1]?.seq ?? 0))
      faults.push(`The feed goes back from ${feed[index - 1]?.seq} to ${seq}.`);
    if (kind === 'document.set' && version !== null) {
      const before = versions.get(id) ?? 0;
      if (version !== before + 1)
        faults.push(`The feed has version ${version} of ${id} after version ${before}.`);
      versions.set(id, version);
    }
    return faults;
  });
}

export interface Counter {
  readonly what: string;
  /** What the server says. */
  readonly counter: number;
  /** What was found one by one. */
  readonly contents: number;
}

export function counterFaults(counters: readonly Counter[]): string[] {
  return counters
    .filter(({ counter, contents }) => counter !== contents)
    .map(
      ({ what, counter, contents }) => `The counter of ${what} says ${counter}, and there are ${contents}.`,
    );
}

/** Messages that one client posted one after the other are in that order. */
export function orderFaults(what: string, asked: readonly string[], stored: readonly string[]): string[] {
  const places = asked.map((name) => stored.indexOf(name)).filter((place) => place !== -1);
  return places.every((place, index) => index === 0 || place > (places[index - 1] ?? -1))
    ? []
    : [`${what} are not stored in the order in which they were accepted.`];
}

function changeText(change: SeenChange | undefined): string {
  return change === undefined
    ? 'nothing'
    : `${change.seq} ${change.kind} ${change.id}${change.version === null ? '' : ` version ${change.version}`}`;
}

function countEach(names: readonly string[]): Map<string, number> {
  const times = new Map<string, number>();
  for (const name of names) times.set(name, (times.get(name) ?? 0) + 1);
  return times;
}

function grouped<Item extends { readonly task: string }>(items: readonly Item[]): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) groups.set(item.task, [...(groups.get(item.task) ?? []), item]);
  return groups;
}
