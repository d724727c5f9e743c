/** The client for Node and browsers: `import { Stoa } from 'stoa/client'`. */
import type { JsonValue } from '../datastore/model.js';
import { DataClient } from './data.js';
import { Transport, type TransportOptions } from './transport.js';

export { StoaError } from '../errors.js';
export type { DataDocument, JsonValue, KeySummary, NamespaceSummary } from '../datastore/model.js';
export type { DocumentChange } from '../datastore/watch.js';
export { DataClient } from './data.js';
export type { TransportOptions as StoaClientOptions } from './transport.js';

/**
 * A Stoa server, as one user and agent see it.
 *
 * @example
 * const stoa = new Stoa({ url: 'http://127.0.0.1:8080', token: process.env.STOA_TOKEN, agent: 'planner' });
 * const notes = stoa.data('notes');
 */
export class Stoa {
  readonly #transport: Transport;
  readonly #options: TransportOptions;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#transport = new Transport(options);
  }

  /** A namespace of the data store; `default` unless named. */
  data<Value = JsonValue>(namespace?: string): DataClient<Value> {
    return new DataClient<Value>(this.#transport, namespace, this.#options.user);
  }
}
