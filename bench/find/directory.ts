/** The search in a data directory. */
import { join } from 'node:path';
import { operatorCaller } from '../../src/core/caller.js';
import { limitsWith } from '../../src/core/settings/limits.js';
import { Chance, type CorpusShape, type MadeDocument, textOf } from '../../src/find/conformance/corpus.js';
import { searchOf } from '../../src/find/conformance/index.js';
import { type Language, languages } from '../../src/find/conformance/vocabulary.js';
import { type DirectoryHome, openDirectoryHome } from '../../src/homes/directory/home.js';
import { type Row, byTurns, rateInFlight } from '../frame.js';
import { batchesOf } from './queries.js';
import { type Part, type Searched, filledOnce, timed, told } from './system.js';

const documentsPerWrite = 100;

export async function openDirectory(directory: string, corpus: CorpusShape): Promise<Searched> {
  const data = join(directory, `directory-${corpus.documents}`);
  const home = await openHome(data);
  const rows = await filledOnce(data, corpus, {
    part: (part) => fill(home, part),
    end: ({ textBytes = 0 }) => filed(home, textBytes),
  });
  return {
    rows,
    searches: [
      {
        name: 'directory',
        isOurs: true,
        ask: ({ text, user, namespace }) =>
          timed(() =>
            home.find.search(searchOf(text, user, namespace === null ? null : [namespace], Date.now())),
          ),
      },
    ],
    close: () => home.close(),
  };
}

function openHome(data: string): Promise<DirectoryHome> {
  return openDirectoryHome({
    data,
    limits: limitsWith({}),
    onError: (error) => process.stderr.write(`${String(error)}\n`),
    onCall: () => undefined,
    onTokenRemoved: () => undefined,
    onTokensMissed: () => undefined,
    onGroup: () => undefined,
  });
}

/** Filing runs beside the writes, and is waited for at the end of a part. */
async function fill(home: DirectoryHome, part: Part): Promise<{ textBytes: number }> {
  let textBytes = 0;
  await told('directory: written and filed', async () => {
    for (const documents of batchesOf(part, documentsPerWrite)) {
      const { user, namespace } = documents[0] as MadeDocument;
      const sets = documents.map(({ key, value }) => {
        const valueJson = JSON.stringify(value);
        textBytes += Buffer.byteLength(valueJson);
        return { key, valueJson, metadata: null, agent: null, ifVersion: null, expiresAt: null };
      });
      await home.writer.write({ caller: operatorCaller(user), idempotency: null }, [
        home.data.write({ user, namespace }, { sets, deletes: [], gets: [] }),
      ]);
    }
    await home.find.work.settle();
  });
  return { textBytes };
}

async function filed(home: DirectoryHome, textBytes: number): Promise<Row[]> {
  const families = home.kernel.stores.flatMap(({ engine }) => Object.entries(engine.stats().families));
  const indexBytes = families
    .filter(([name]) => name.startsWith('find/'))
    .reduce((sum, [, { sizeBytes }]) => sum + sizeBytes, 0);
  const sets = await setRates(home);
  return [
    {
      what: 'directory: a durable set of 1 KB, time with the index against without',
      ours: 1_000 / sets.ours,
      reference: 1_000 / sets.reference,
      unit: 'ms',
      target: { atMost: 1.5 },
    },
    {
      what: 'directory: bytes of the index in its pages, against the text',
      ours: indexBytes,
      reference: textBytes,
      unit: 'bytes',
      target: { atMost: 0.8 },
    },
  ];
}

/** Sets a second, 64 at once, in a namespace with the index and in one without. */
async function setRates(home: DirectoryHome): Promise<{ ours: number; reference: number }> {
  const user = 'writer';
  const caller = operatorCaller(user);
  const request = { caller, idempotency: null };
  await home.writer.write(request, [
    home.namespaceSettings.change({ user, namespace: 'without' }, { index: false }),
  ]);
  const chance = new Chance(3);
  let written = 0;
  const rate = (namespace: string) => (): Promise<number> =>
    rateInFlight(64, () => {
      written += 1;
      const valueJson = JSON.stringify({ text: textOf(languages[0] as Language, chance, 1_000) });
      const write = { valueJson, metadata: null, agent: null, ifVersion: null, expiresAt: null };
      const sets = [{ key: `note-${written % 5_000}`, ...write }];
      return home.writer.write(request, [
        home.data.write({ user, namespace }, { sets, deletes: [], gets: [] }),
      ]);
    });
  return byTurns(5, rate('with'), rate('without'));
}
