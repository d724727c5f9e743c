/** The totals of a namespace, computed by a CouchDB view, so that Stoa does not read every document. */
import type { Cancellation } from '../../core/waiting/cancellation.js';
import { normaliseTime } from '../../datastore/documents/times.js';
import type { Limits } from '../../core/settings/limits.js';
import { mapInFlight } from '../in-flight.js';
import type { CouchDatabase } from './database.js';
import { orderKey } from './documents.js';

/**
 * The number changes with the functions below: an existing view is never replaced while another process uses
 * it.
 */
const designName = 'stoa-namespaces-2';
const viewName = 'totals';

/**
 * Written for old JavaScript engines of CouchDB. Names are in hex, because its collation takes some different
 * texts as equal. Sizes come from Stoa's writes, or are measured if another program has written since; times
 * are microseconds since 1970.
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
  function microsecondsOf(time) {
    var match = /^(\\d{4}-\\d{2}-\\d{2})[Tt ](\\d{2}:\\d{2})(:\\d{2})?(?:[.,](\\d+))?\\s*([Zz]|[+-]\\d{2}(?::?\\d{2})?)?$/.exec(String(time));
    if (!match) return null;
    var zone = (match[5] || 'Z').toUpperCase();
    if (zone.length === 3) zone += ':00';
    if (zone.length === 5) zone = zone.slice(0, 3) + ':' + zone.slice(3);
    var ms = Date.parse(match[1] + 'T' + match[2] + (match[3] || ':00') + zone);
    return isNaN(ms) ? null : ms * 1000 + Number(((match[4] || '') + '000000').slice(0, 6));
  }
  if (typeof doc.userId !== 'string' || typeof doc.namespace !== 'string' || typeof doc.key !== 'string') return;
  var user = hex(doc.userId);
  var namespace = hex(doc.namespace);
  var isMeasured = typeof doc.sizeBytes === 'number' && typeof doc.updatedAt === 'string' && doc.indexedAt === doc.updatedAt;
  var expiry = typeof doc.expiresAt === 'string' ? microsecondsOf(doc.expiresAt) : null;
  var until = expiry === null ? 'never' : Math.floor(expiry / 1000);
  emit([user, 'size', namespace, until], isMeasured ? doc.sizeBytes : bytesOf(JSON.stringify(doc.value) || ''));
  var updated = microsecondsOf(doc.updatedAt);
  if (updated === null) updated = microsecondsOf(doc.createdAt);
  if (updated !== null) emit([user, 'updated', namespace, until], updated);
  if (expiry !== null) emit([user, 'expiring', namespace], 1);
  var agents = [doc.createdByAgent, doc.lastAccessedByAgent];
  for (var index = 0; index < 2; index += 1) {
    if (typeof agents[index] === 'string' && agents[index] !== agents[index - 1]) emit([user, 'agents', namespace, hex(agents[index])], 1);
  }
}`;

/**
 * CouchDB's own: for 3,000 scattered documents a function in JavaScript took 20 s of the processor, because
 * the server compiles it for every call; a built-in one took 0.6 s.
 */
const reduce = '_stats';

/** What a view adds up: documents and bytes of `size`, the last write of `updated`. */
type Kind = 'size' | 'updated' | 'expiring' | 'agents';

interface Row {
  key: string[];
  value: { sum: number; count: number; max: number };
}

/** The totals of a namespace, computed from its documents. */
export interface NamespaceTotals {
  count: number;
  sizeBytes: number;
  updatedAt: string;
  agents: string[];
}

export class NamespaceView {
  readonly #database: CouchDatabase;
  readonly #limits: Limits;

  constructor(database: CouchDatabase, limits: Limits) {
    this.#database = database;
    this.#limits = limits;
  }

  /** Created if it is missing. Resolves when it can be used. */
  async prepare(): Promise<void> {
    await this.#database.createDesign(designName, { [viewName]: { map, reduce } });
    await this.#rows('', 'size', [], []);
  }

  /** For these namespaces, in code-point order. Those without a live document are left out. */
  async totals(
    user: string,
    names: readonly string[],
    nowMs: number,
    signal?: Cancellation,
  ): Promise<Map<string, NamespaceTotals>> {
    const [first, last] = [names[0], names.at(-1)];
    if (first === undefined || last === undefined) return new Map();
    const grouped = async (kind: Kind): Promise<Map<string, Row[]>> => {
      const groups = new Map<string, Row[]>();
      for (const row of await this.#rows(user, kind, [orderKey(first)], [orderKey(last)], signal)) {
        const name = row.key[2] ?? '';
        const group = groups.get(name);
        if (group === undefined) groups.set(name, [row]);
        else group.push(row);
      }
      return groups;
    };
    const [sizes, updates, expiring, agents] = [
      await grouped('size'),
      await grouped('updated'),
      await grouped('expiring'),
      await grouped('agents'),
    ];
    const found = await mapInFlight(
      names,
      this.#limits.backendInFlightMax,
      async (name): Promise<[string, NamespaceTotals] | undefined> => {
        const id = orderKey(name);
        // If documents may have expired that are not swept yet, the live ones are queried separately.
        const isExact = !expiring.has(id);
        const size = isExact ? sizes.get(id) : await this.#live(user, 'size', name, nowMs, signal);
        const updated = isExact ? updates.get(id) : await this.#live(user, 'updated', name, nowMs, signal);
        const total = size?.[0]?.value;
        if (total === undefined) return undefined;
        return [
          name,
          {
            count: total.count,
            sizeBytes: total.sum,
            updatedAt: timeOf(updated?.[0]?.value.max),
            agents: (agents.get(id) ?? []).map(({ key }) => Buffer.from(key[3] ?? '', 'hex').toString()),
          },
        ];
      },
    );
    return new Map(found.filter((entry) => entry !== undefined));
  }

  #live(
    user: string,
    kind: Kind,
    name: string,
    nowMs: number,
    signal: Cancellation | undefined,
  ): Promise<Row[]> {
    return this.#rows(user, kind, [orderKey(name), Math.floor(nowMs) + 1], [orderKey(name)], signal);
  }

  /** The groups between two places. */
  async #rows(
    user: string,
    kind: Kind,
    first: readonly unknown[],
    last: readonly unknown[],
    signal?: Cancellation,
  ): Promise<Row[]> {
    const range = {
      startkey: [orderKey(user), kind, ...first],
      endkey: [orderKey(user), kind, ...last, {}],
      group_level: kind === 'agents' ? 4 : 3,
    };
    // The result of the functions above.
    return (await this.#database.reduced(designName, viewName, range, signal)) as Row[];
  }
}

/** If no document has a time of its write. */
const unknownTime = '1970-01-01T00:00:00Z';

function timeOf(microseconds: number | undefined): string {
  if (microseconds === undefined) return unknownTime;
  const seconds = Math.floor(microseconds / 1e6);
  const fraction = String(microseconds - seconds * 1e6).padStart(6, '0');
  return normaliseTime(`${new Date(seconds * 1_000).toISOString().slice(0, 19)}.${fraction}Z`);
}
