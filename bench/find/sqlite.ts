/** The same corpus and queries in SQLite's FTS5, by Python's module. */
import { execFileSync } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { type CorpusShape, makeCorpus } from '../../src/find/conformance/corpus.js';
import { type Asked, type Times, shapeOf } from './queries.js';

/** One line for each document and query: a million documents are too long for one text. */
function* lines(corpus: CorpusShape, asked: readonly Asked[]): Generator<string> {
  for (const { user, namespace, key, value } of makeCorpus(corpus))
    yield `${JSON.stringify(['document', user, namespace, key, JSON.stringify(value)])}\n`;
  for (const one of asked) {
    const words = one.text.split(' ').map((word) => `"${word.replaceAll('"', '')}"`);
    yield `${JSON.stringify(['query', shapeOf(one), one.user, one.namespace, words.join(' OR ')])}\n`;
  }
}

export async function sqliteTimes(
  directory: string,
  corpus: CorpusShape,
  asked: readonly Asked[],
): Promise<Times> {
  const input = join(directory, 'sqlite.jsonl');
  const file = createWriteStream(input);
  Readable.from(lines(corpus, asked)).pipe(file);
  await once(file, 'finish');
  const output = execFileSync('python3', ['-c', program, input], { maxBuffer: 1 << 28 });
  return new Map(Object.entries(JSON.parse(output.toString()) as Record<string, number[]>));
}

const program = `
import json, sqlite3, sys, time

db = sqlite3.connect(':memory:')
db.execute("CREATE VIRTUAL TABLE d USING fts5(user UNINDEXED, namespace UNINDEXED, key, value, tokenize='porter unicode61')")
times = {}
for line in open(sys.argv[1]):
    what, *given = json.loads(line)
    if what == 'document':
        db.execute('INSERT INTO d VALUES (?, ?, ?, ?)', given)
        continue
    name, user, namespace, text = given
    started = time.perf_counter()
    db.execute('SELECT key FROM d WHERE d MATCH ? AND user = ? AND (? IS NULL OR namespace = ?) ORDER BY rank LIMIT 10',
        (text, user, namespace, namespace)).fetchall()
    times.setdefault(name, []).append((time.perf_counter() - started) * 1000)
print(json.dumps(times))
`;
