/** The same corpus and queries in SQLite's FTS5, by Python's module. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { type CorpusShape, makeCorpus } from '../../src/find/conformance/corpus.js';
import { type Part, type Searched, filledOnce, told } from './system.js';

export async function openSqlite(directory: string, corpus: CorpusShape): Promise<Searched> {
  const path = join(directory, `fts5-${corpus.documents}.db`);
  const rows = await filledOnce(path, corpus, {
    part: async (part) => {
      await told('FTS5: filled', () => fill(path, part));
      return {};
    },
    end: async () => {
      await told('FTS5: optimized', async () => execFileSync('python3', ['-c', optimizing, path]));
      return [];
    },
  });
  const python = spawn('python3', ['-c', asking, path], { stdio: ['pipe', 'pipe', 'inherit'] });
  const answers = createInterface(python.stdout)[Symbol.asyncIterator]();
  return {
    rows,
    searches: [
      {
        name: 'FTS5',
        isOurs: false,
        ask: async ({ text, user, namespace }) => {
          const words = text.split(' ').map((word) => `"${word.replaceAll('"', '')}"`);
          python.stdin.write(`${JSON.stringify([placeWord(namespace ?? user), words.join(' OR ')])}\n`);
          const answer = await answers.next();
          if (answer.done === true) throw new Error('Python ended before it answered.');
          return Number(answer.value);
        },
      },
    ],
    close: async () => {
      python.stdin.end();
      await once(python, 'exit');
    },
  };
}

async function fill(path: string, part: Part): Promise<void> {
  const input = `${path}.jsonl`;
  const file = createWriteStream(input);
  Readable.from(lines(part)).pipe(file);
  await once(file, 'finish');
  execFileSync('python3', ['-c', filling, path, input, String(part.from + 1), String(part.to)]);
  await rm(input);
}

function* lines({ corpus, from, to }: Part): Generator<string> {
  for (const { user, namespace, key, value } of makeCorpus(corpus, { from, to })) {
    const places = `${placeWord(user)} ${placeWord(namespace)}`;
    yield `${JSON.stringify([places, key, JSON.stringify(value)])}\n`;
  }
}

/** FTS5 looks up the user or the namespace as a word: a comparison for each match took longer. */
function placeWord(name: string): string {
  return name.replaceAll('-', '');
}

const filling = `
import json, sqlite3, sys

db = sqlite3.connect(sys.argv[1])
db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS d USING fts5(place, key, value, tokenize='porter unicode61')")
db.execute('DELETE FROM d WHERE rowid BETWEEN ? AND ?', (int(sys.argv[3]), int(sys.argv[4])))
rows = enumerate((json.loads(line) for line in open(sys.argv[2])), int(sys.argv[3]))
db.executemany('INSERT INTO d (rowid, place, key, value) VALUES (?, ?, ?, ?)', ((number, *row) for number, row in rows))
db.commit()
`;

const optimizing = `
import sqlite3, sys

db = sqlite3.connect(sys.argv[1])
db.execute("INSERT INTO d(d) VALUES ('optimize')")
db.commit()
`;

const asking = `
import json, sqlite3, sys, time

db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA mmap_size = 17179869184")
db.execute("PRAGMA cache_size = -262144")
for line in sys.stdin:
    place, text = json.loads(line)
    asked = 'place : ' + place + ' AND {key value} : (' + text + ')'
    started = time.perf_counter()
    db.execute("SELECT key FROM d WHERE d MATCH ? AND rank MATCH 'bm25(0, 1, 1)' ORDER BY rank LIMIT 10", (asked,)).fetchall()
    print((time.perf_counter() - started) * 1000, flush=True)
`;
