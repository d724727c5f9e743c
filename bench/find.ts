/**
 * The search in both homes beside PostgreSQL's own `ts_rank` and SQLite's FTS5, on the same documents and queries, and the
 * quality of the ranking on made questions. `FIND_DOCUMENTS` sets the size of the corpus, `FIND_HOMES` the homes:
 * `directory`, `postgres`, or both with a comma.
 */
import type { CorpusShape } from '../src/find/conformance/corpus.js';
import { directoryRows } from './find/directory.js';
import { postgresRows } from './find/postgres.js';
import { quality } from './find/quality.js';
import { askedOf } from './find/queries.js';
import { sqliteTimes } from './find/sqlite.js';
import type { Bench, Row } from './frame.js';

const documents = Number(process.env['FIND_DOCUMENTS'] ?? 100_000);
const homes = (process.env['FIND_HOMES'] ?? 'directory,postgres').split(',');
/** As in the goal: 1,000,000 documents in 1,000 namespaces of 100 users. */
const users = Math.max(2, Math.round(documents / 10_000));
const namespacesPerUser = 10;

export const findBench: Bench = {
  name: 'find',
  run: async (directory) => {
    const rows: Row[] = await quality();
    const corpus: CorpusShape = { seed: 5, documents, users, namespacesPerUser };
    const asked = askedOf(corpus);
    const sqlite = await sqliteTimes(directory, corpus, asked);
    if (homes.includes('directory')) rows.push(...(await directoryRows(directory, corpus, asked, sqlite)));
    if (homes.includes('postgres')) rows.push(...(await postgresRows(corpus, asked, sqlite)));
    return rows;
  },
};
