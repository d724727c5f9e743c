/** What an import would add to the quotas of its users, counted before its first document is written. */
import type { Limits } from '../../core/settings/limits.js';
import { sizeOf } from '../documents/merge-document.js';
import type { DocumentRecord } from '../model.js';
import type { DataPort } from '../port.js';
import { type Usage, checkQuota, hasQuota } from '../quota.js';

interface Growth {
  before: Usage;
  after: Usage;
  namespaces: Set<string>;
}

/** Namespaces that are read at a time. */
const namespacesStep = 1_000;

export class ImportQuota {
  readonly #port: DataPort;
  readonly #limits: Limits;
  readonly #users = new Map<string, Growth>();

  constructor(port: DataPort, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  /** Counts each document once. Throws if a quota would be exceeded. */
  async add(records: readonly DocumentRecord[]): Promise<void> {
    if (!hasQuota(this.#limits)) return;
    const scopes = new Map<string, DocumentRecord[]>();
    for (const record of records) {
      const name = JSON.stringify([record.userId, record.namespace]);
      scopes.set(name, [...(scopes.get(name) ?? []), record]);
    }
    for (const own of scopes.values()) {
      const { userId: user, namespace } = own[0] as DocumentRecord; // No scope without a record of it.
      const growth = await this.#growthOf(user);
      const stored = await this.#port.getMany(
        { user, namespace },
        own.map(({ key }) => key),
      );
      const after = {
        documents: growth.after.documents + stored.filter((record) => record === undefined).length,
        sizeBytes:
          growth.after.sizeBytes +
          own.reduce(
            (sum, record, index) => sum + sizeOf(record) - sizeOf(stored[index] ?? { valueJson: '' }),
            0,
          ),
        namespaces: growth.after.namespaces + (growth.namespaces.has(namespace) ? 0 : 1),
      };
      // A refused document is not counted: a smaller one may still fit.
      checkQuota(growth.before, after, this.#limits);
      growth.after = after;
      growth.namespaces.add(namespace);
    }
  }

  async #growthOf(user: string): Promise<Growth> {
    const known = this.#users.get(user);
    if (known !== undefined) return known;
    const before = await this.#port.usage(user);
    const growth: Growth = {
      before,
      after: { ...before },
      namespaces: new Set(await this.#namespacesOf(user)),
    };
    this.#users.set(user, growth);
    return growth;
  }

  async #namespacesOf(user: string): Promise<string[]> {
    const names: string[] = [];
    for (let after: string | null = null; ;) {
      const page = await this.#port.listNamespaces(user, after, namespacesStep);
      names.push(...page.map(({ namespace }) => namespace));
      if (page.length < namespacesStep) return names;
      after = names.at(-1) ?? null;
    }
  }
}
