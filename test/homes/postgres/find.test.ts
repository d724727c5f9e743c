/** The search in PostgreSQL: the conformance suite over two servers. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { findConformance, type FindBench } from '../../../src/find/conformance/index.js';
import { PostgresFind } from '../../../src/homes/postgres/find/find.js';
import { sharedPostgres } from '../../servers/shared.js';
import { openData } from './open-domains.js';

/** These searches are over documents only. */
async function* noMessages(): AsyncGenerator<never> {}

const documents = Number(process.env['FIND_DOCUMENTS'] ?? 5_000);
const limits = limitsWith({ findWaitingMax: 256 });
let skewMs = 0;
const nowMs = (): number => Date.now() + skewMs;
const closing: (() => Promise<void>)[] = [];

async function server(url: string): Promise<FindBench> {
  const { port, writer, base } = await openData(url, { limits, nowMs });
  const find = new PostgresFind({
    sql: base.sql,
    writer: base.writer,
    limits,
    nowMs,
    messages: {
      read: async () => [],
      markAll: async () => undefined,
      readableRooms: async () => new Set(),
      all: noMessages,
    },
    onError: (error) => {
      throw error;
    },
    intervalMs: undefined,
    isOnlyRead: false,
  });
  closing.push(
    () => find.close(),
    () => port.close(),
  );
  return { data: port, writer, find, nowMs, settle: () => find.fileAll() };
}

let url = '';
findConformance(
  { describe, it, beforeAll, afterAll, afterEach, expect },
  {
    documents,
    open: async () => {
      ({ url } = await sharedPostgres());
      const bench = await server(url);
      return {
        ...bench,
        advance: (ms) => {
          skewMs += ms;
        },
        close: async () => {
          for (const close of closing) await close();
        },
      };
    },
    second: () => server(url),
  },
);
