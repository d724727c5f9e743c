/** The documents of a store as they are now, for the index of words that the home keeps of them. */
import { KeyQueue } from '../../core/waiting/key-queue.js';
import type { DocumentRecord, Scope } from '../model.js';
import type { DocumentReads } from '../port.js';

export interface DocumentName extends Scope {
  readonly key: string;
}

/** A document that was just read; undefined if it does not exist. */
export interface CurrentDocument extends DocumentName {
  readonly record: DocumentRecord | undefined;
}

/** All documents of a user or of all users, or of one namespace; null means all. */
export interface NamesScope {
  readonly user: string | null;
  readonly namespace: string | null;
}

export interface NamesPage {
  readonly names: readonly DocumentName[];
  /** Where the next page begins; null at the end. */
  readonly after: string | null;
}

/** Documents that are read together. Each may be as large as the store allows. */
const documentsPerRead = 64;

export class CurrentDocuments {
  readonly #store: DocumentReads;
  readonly #queue = new KeyQueue();

  constructor(store: DocumentReads) {
    this.#store = store;
  }

  /**
   * Reads the documents and passes them on, in parts. Each document is read after the previous one was passed
   * on, so of two writes in this process the later state stays.
   */
  async pass(
    names: readonly DocumentName[],
    receive: (documents: readonly CurrentDocument[], isLast: boolean) => Promise<void>,
  ): Promise<void> {
    if (names.length === 0) return receive([], true);
    for (let at = 0; at < names.length; at += documentsPerRead) {
      const part = names.slice(at, at + documentsPerRead);
      await this.#queue.runAll(part.map(idOf), async () =>
        receive(await this.#read(part), at + documentsPerRead >= names.length),
      );
    }
  }

  /** The names of all documents that the store has now, also those of other programs. */
  async page({ user, namespace }: NamesScope, after: string | null): Promise<NamesPage> {
    if (user === null) {
      const page = await this.#store.exportPage(after, documentsPerRead);
      return { names: page.documents.map(nameOf), after: page.after };
    }
    // Only this method makes these positions.
    const position = after === null ? null : (JSON.parse(after) as { namespace: string; key: string | null });
    const current = position?.namespace ?? namespace ?? (await this.#namespaceAfter(user, null));
    if (current === undefined) return { names: [], after: null };
    const documents = await this.#store.listDocuments(
      { user, namespace: current },
      { prefix: '', after: position?.key ?? null, limit: documentsPerRead },
    );
    const isMore = documents.length === documentsPerRead;
    const next = isMore
      ? { namespace: current, key: documents.at(-1)?.key ?? null }
      : await this.#nextNamespace(user, namespace, current);
    return { names: documents.map(nameOf), after: next === null ? null : JSON.stringify(next) };
  }

  async #nextNamespace(
    user: string,
    only: string | null,
    current: string,
  ): Promise<{ namespace: string; key: null } | null> {
    if (only !== null) return null;
    const namespace = await this.#namespaceAfter(user, current);
    return namespace === undefined ? null : { namespace, key: null };
  }

  async #namespaceAfter(user: string, after: string | null): Promise<string | undefined> {
    return (await this.#store.listNamespaces(user, after, 1))[0]?.namespace;
  }

  async #read(names: readonly DocumentName[]): Promise<CurrentDocument[]> {
    const scopes = new Map<string, { scope: Scope; names: DocumentName[] }>();
    for (const name of names) {
      const id = JSON.stringify([name.user, name.namespace]);
      const known = scopes.get(id) ?? { scope: { user: name.user, namespace: name.namespace }, names: [] };
      known.names.push(name);
      scopes.set(id, known);
    }
    const read = await Promise.all(
      Array.from(scopes.values(), async ({ scope, names: own }) => {
        const records = await this.#store.getMany(
          scope,
          own.map(({ key }) => key),
        );
        return own.map((name, index) => ({ ...name, record: records[index] }));
      }),
    );
    return read.flat();
  }
}

function nameOf({ userId, namespace, key }: DocumentRecord): DocumentName {
  return { user: userId, namespace, key };
}

function idOf({ user, namespace, key }: DocumentName): string {
  return JSON.stringify([user, namespace, key]);
}
