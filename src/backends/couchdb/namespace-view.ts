/** What is in a namespace, added up by CouchDB itself: a view of ours, so that nobody reads every document for it. */
import { type Cancellation, checkWanted } from '../../cancellation.js';
import { normaliseTime } from '../../datastore/times.js';
import type { Limits } from '../../limits.js';
import { mapInFlight } from '../in-flight.js';
import { type CouchClient, isUnanswered } from './client.js';
import { orderKey } from './documents.js';

/** The number changes with the functions below: a view that is there is never replaced under another process. */
const designName = 'stoa-namespaces-1';
const viewName = 'totals';

/**
 * As old engines of CouchDB can run it. Names are in hex: its collation takes some texts for equal that are not. Sizes are
 * those of our own writes, or measured where another program has written since; times are spelled so that they sort.
 */
const map = `function (doc) {
  function hex(text) {
    return encodeURIComponent(text).replace(/%(..)|([^%])/g, function (all, escaped, plain) {
      return escaped ? escaped.toLowerCase() : plain.charCodeAt(0).toString(16);
    });
  }
  function bytesOf(text) {
    var bytes = 0;
    for (var index = 0; index < text.length; index += 1) {
      var unit = text.charCodeAt(index);
      if (unit >= 0xd800 && unit < 0xdc00) index += 1;
      bytes += unit < 0x80 ? 1 : unit < 0x800 ? 2 : unit >= 0xd800 && unit < 0xdc00 ? 4 : 3;
    }
    return bytes;
  }
  function sortable(time) {
    var match = /^(\\d{4}-\\d{2}-\\d{2})[Tt ](\\d{2}:\\d{2})(:\\d{2})?(?:[.,](\\d+))?\\s*([Zz]|[+-]\\d{2}(?::?\\d{2})?)?$/.exec(String(time));
    if (!match) return null;
    var zone = (match[5] || 'Z').toUpperCase();
    if (zone.length === 3) zone += ':00';
    if (zone.length === 5) zone = zone.slice(0, 3) + ':' + zone.slice(3);
    var ms = Date.parse(match[1] + 'T' + match[2] + (match[3] || ':00') + zone);
    return isNaN(ms) ? null : new Date(ms).toISOString().slice(0, 19) + '.' + ((match[4] || '') + '000000').slice(0, 6) + 'Z';
  }
  if (typeof doc.userId !== 'string' || typeof doc.namespace !== 'string' || typeof doc.key !== 'string') return;
  var user = hex(doc.userId);
  var namespace = hex(doc.namespace);
  var isMeasured = typeof doc.sizeBytes === 'number' && typeof doc.updatedAt === 'string' && doc.indexedAt === doc.updatedAt;
  var expiry = typeof doc.expiresAt === 'string' ? sortable(doc.expiresAt) : null;
  emit([user, 'documents', namespace, expiry === null ? 'never' : Date.parse(expiry.slice(0, 23) + 'Z')], {
    count: 1,
    sizeBytes: isMeasured ? doc.sizeBytes : bytesOf(JSON.stringify(doc.value) || ''),
    expiring: expiry === null ? 0 : 1,
    updatedAt: sortable(doc.updatedAt) || sortable(doc.createdAt) || ''
  });
  var agents = [doc.createdByAgent, doc.lastAccessedByAgent];
  for (var index = 0; index < 2; index += 1) {
    if (typeof agents[index] === 'string' && agents[index] !== agents[index - 1]) emit([user, 'agents', namespace, agents[index]], null);
  }
}`;

const reduce = `function (keys, values) {
  var total = { count: 0, sizeBytes: 0, expiring: 0, updatedAt: '' };
  for (var index = 0; index < values.length; index += 1) {
    var value = values[index];
    if (value === null) continue;
    total.count += value.count;
    total.sizeBytes += value.sizeBytes;
    total.expiring += value.expiring;
    if (value.updatedAt > total.updatedAt) total.updatedAt = value.updatedAt;
  }
  return total;
}`;

interface Total {
  count: number;
  sizeBytes: number;
  expiring: number;
  updatedAt: string;
}

/** What the documents themselves tell of a namespace. */
export interface NamespaceTotals {
  count: number;
  sizeBytes: number;
  updatedAt: string;
  agents: string[];
}

export class NamespaceView {
  readonly #client: CouchClient;
  readonly #database: string;
  readonly #limits: Limits;

  constructor(client: CouchClient, database: string, limits: Limits) {
    this.#client = client;
    this.#database = database;
    this.#limits = limits;
  }

  /** Made where it is missing, and waited for until it can be used. */
  async prepare(): Promise<void> {
    await this.#client.createDesign(this.#database, designName, { [viewName]: { map, reduce } });
    await this.#rows('', 'documents', [], []);
  }

  /** Of these namespaces, which are in code-point order; those without a live document are left out. */
  async totals(
    user: string,
    names: readonly string[],
    nowMs: number,
    signal?: Cancellation,
  ): Promise<Map<string, NamespaceTotals>> {
    const [first, last] = [names[0], names.at(-1)];
    if (first === undefined || last === undefined) return new Map();
    const range = [[orderKey(first)], [orderKey(last)]] as const;
    const totals = new Map(
      (await this.#rows(user, 'documents', ...range, signal)).map(({ key, value }) => [key[2], value]),
    );
    const agents = new Map<string, string[]>();
    for (const {
      key: [, , name = '', agent = ''],
    } of await this.#rows(user, 'agents', ...range, signal))
      agents.set(name, [...(agents.get(name) ?? []), agent]);
    const found = await mapInFlight(
      names,
      this.#limits.backendInFlightMax,
      async (name): Promise<[string, NamespaceTotals] | undefined> => {
        const known = totals.get(orderKey(name));
        // Only where something may have expired and is not swept yet, the live ones are asked for by themselves.
        const total =
          known === undefined || known.expiring === 0 ? known : await this.#live(user, name, nowMs, signal);
        if (total === undefined) return undefined;
        const { count, sizeBytes, updatedAt } = total;
        return [
          name,
          {
            count,
            sizeBytes,
            updatedAt: updatedAt === '' ? unknownTime : normaliseTime(updatedAt),
            agents: agents.get(orderKey(name)) ?? [],
          },
        ];
      },
    );
    return new Map(found.filter((entry) => entry !== undefined));
  }

  async #live(
    user: string,
    name: string,
    nowMs: number,
    signal: Cancellation | undefined,
  ): Promise<Total | undefined> {
    const [row] = await this.#rows(
      user,
      'documents',
      [orderKey(name), Math.floor(nowMs) + 1],
      [orderKey(name)],
      signal,
    );
    return row?.value;
  }

  /**
   * The groups between two places. CouchDB brings the view up to date before it answers, which takes longer than a request may
   * after very many writes: as long as it answers other questions, it is asked again.
   */
  async #rows(
    user: string,
    kind: 'documents' | 'agents',
    first: readonly unknown[],
    last: readonly unknown[],
    signal?: Cancellation,
  ): Promise<{ key: string[]; value: Total }[]> {
    const range = {
      startkey: [orderKey(user), kind, ...first],
      endkey: [orderKey(user), kind, ...last, {}],
      group_level: kind === 'agents' ? 4 : 3,
    };
    for (const endMs = performance.now() + this.#limits.backendReadySecondsMax * 1_000; ;) {
      checkWanted(signal);
      try {
        return (await this.#client.reduced(this.#database, designName, viewName, range)) as {
          key: string[];
          value: Total;
        }[]; // What the functions above make.
      } catch (error) {
        if (!isUnanswered(error) || performance.now() >= endMs) throw error;
        await this.#client.checkDatabase(this.#database);
      }
    }
  }
}

/** Where no document says when it was written. */
const unknownTime = '1970-01-01T00:00:00Z';
