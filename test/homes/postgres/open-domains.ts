/** Domains of the PostgreSQL home as suites open them: on a pool, a feed and a writer of their own. */
import { messageOf } from '../../../src/core/errors.js';
import type { Writer } from '../../../src/core/write.js';
import type { OpenOptions } from '../../../src/datastore/conformance/context.js';
import type { DataPort } from '../../../src/datastore/port.js';
import {
  type PostgresBase,
  type PostgresBaseOptions,
  openPostgresBase,
} from '../../../src/homes/postgres/base.js';
import {
  type PostgresDataStore,
  openPostgresDataStore,
} from '../../../src/homes/postgres/datastore/datastore.js';
import { KnownUsers } from '../../../src/homes/postgres/known-users.js';

export function openBase(
  url: string | URL,
  options: Pick<PostgresBaseOptions, 'limits'> & Partial<PostgresBaseOptions>,
): Promise<PostgresBase> {
  return openPostgresBase(new URL(url), {
    checkFence: async () => undefined,
    onError: (error, about) => process.emitWarning(`${about}: ${messageOf(error)}`),
    ...options,
  });
}

/** Nobody notes which users there are. */
export function anyUser(): KnownUsers {
  return new KnownUsers(async () => undefined);
}

export interface OpenedData {
  port: PostgresDataStore;
  writer: Writer;
  base: PostgresBase;
}

/** The data store as one server has it; closing its port closes the pool too. */
export async function openData(
  url: string | URL,
  { limits, nowMs }: OpenOptions,
  more: Partial<PostgresBaseOptions> = {},
): Promise<OpenedData> {
  const onError = more.onError ?? (() => undefined);
  const base = await openBase(url, { limits, onError, skewMs: () => nowMs() - Date.now(), ...more });
  try {
    const users = anyUser();
    const port = await openPostgresDataStore(base.sql, base.writer, { limits, nowMs, users, onError });
    base.limitStatements();
    const closePort = port.close.bind(port);
    port.close = async () => {
      await closePort();
      await base.close();
    };
    return { port, writer: base.writer, base };
  } catch (error) {
    await base.close();
    throw error;
  }
}

/** A port that carries its writer, as `dataOver` takes it. */
export async function openPort(
  url: string | URL,
  options: OpenOptions,
): Promise<DataPort & { writer: Writer }> {
  const { port, writer } = await openData(url, options);
  return Object.assign(port, { writer });
}
