/**
 * The search in both homes beside PostgreSQL's own `ts_rank` and SQLite's FTS5, on the same documents and queries, and the
 * quality of the ranking on made questions. `FIND_DOCUMENTS` sets the size of the corpus, `FIND_QUERIES` the
 * number of queries for a row, `FIND_SYSTEMS` what is compared:
 * `directory`, `postgres`, `fts5`, joined by commas, or `none` for the quality alone. Each system keeps its documents in
 * `.bench/find` for the next run; filling that was cut off continues there.
 */
import type { CorpusShape } from '../src/find/conformance/corpus.js';
import { openDirectory } from './find/directory.js';
import { openPostgres } from './find/postgres.js';
import { quality } from './find/quality.js';
import { askedOf, timeRows, timesOf } from './find/queries.js';
import { openSqlite } from './find/sqlite.js';
import type { Searched } from './find/system.js';
import type { Bench, Row } from './frame.js';

const documents = Number(process.env['FIND_DOCUMENTS'] ?? 100_000);
const names = (process.env['FIND_SYSTEMS'] ?? 'fts5,directory,postgres')
  .split(',')
  .filter((name) => name !== 'none');
/** As in the goal: 1,000,000 documents in 1,000 namespaces of 100 users. */
const users = Math.max(2, Math.round(documents / 10_000));
const namespacesPerUser = 10;

const systems: Record<string, (directory: string, corpus: CorpusShape) => Promise<Searched>> = {
  fts5: openSqlite,
  directory: openDirectory,
  postgres: openPostgres,
};

export const findBench: Bench = {
  name: 'find',
  run: async (directory) => {
    const rows: Row[] = await quality();
    const corpus: CorpusShape = { seed: 5, documents, users, namespacesPerUser, hasEvenSizes: true };
    const opened: Searched[] = [];
    try {
      for (const name of names) {
        const open = systems[name];
        if (open === undefined)
          throw new Error(`Unknown system "${name}". Use ${Object.keys(systems).join(', ')}.`);
        opened.push(await open(directory, corpus));
      }
      const times = await timesOf(
        askedOf(corpus),
        opened.flatMap(({ searches }) => searches),
      );
      rows.push(...opened.flatMap(({ rows: own }) => own), ...timeRows(times));
    } finally {
      for (const { close } of opened) await close();
    }
    return rows;
  },
};
