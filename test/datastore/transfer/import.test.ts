/** Imports of files of documents: all of it, or nothing. */
import { dataOver } from '../data-over.js';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { openDynamodbDataStore } from '../../../src/stores/dynamodb/open.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { StoaError } from '../../../src/core/errors.js';
import { type Stoa, openStoa } from '../../../src/index.js';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { importDocumentFile } from '../../../src/transfer/document-file.js';
import { useProgram } from '../../cli/program.js';
import { mountSmallDisk } from '../../homes/directory/kernel/small-disk.js';
import { Running } from '../../server/running.js';
import { sharedHome, sharedServer, uniqueName } from '../../servers/shared.js';
import { dropTable, dynamodb } from '../../stores/dynamodb/table.js';
import { eventually } from '../../until.js';

const program = useProgram();
const ada = operatorCaller('ada');
const at = '2026-02-05T10:00:00Z';
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-import-test-'));
});
afterAll(() => rm(directory, { recursive: true }));

const lineOf = (key: string, value = '1', namespace = 'n'): string =>
  `{"userId":"ada","namespace":"${namespace}","key":"${key}","createdAt":"${at}","value":${value}}`;
const linesOf = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => lineOf(`k${String(index).padStart(4, '0')}`));
const nested = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;

async function file(name: string, lines: readonly string[]): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, lines.join('\n'));
  return path;
}

async function countIn(stoa: Stoa, namespace = 'n'): Promise<number> {
  return (await stoa.data.listNamespaces(ada)).items.find((item) => item.namespace === namespace)?.count ?? 0;
}

describe.each(['a directory', 'PostgreSQL'])('on %s', (backend) => {
  const open = async (limits: Record<string, number>): Promise<Stoa> =>
    backend === 'a directory'
      ? openStoa({ data: 'unused', engine: 'memory', limits })
      : openStoa({ ...(await sharedHome()).options, limits });

  test('an import writes nothing if a later line exceeds the quota', async () => {
    const stoa = await open({ dataDocumentsPerUserMax: 650, importStepRecordsMax: 100 });
    await stoa.data.set(ada, 'n', 'k0000', 'there already');
    const path = await file('quota.ndjson', linesOf(651));
    for (const options of [{}, { dryRun: true }])
      await expect(importDocumentFile(stoa.data, operatorCaller(), path, options)).rejects.toMatchObject({
        code: 'quota_exceeded',
      });
    await expect(
      stoa.data.transfer.import(
        ada,
        linesOf(651).map((line) => JSON.parse(line) as unknown),
      ),
    ).rejects.toMatchObject({ code: 'quota_exceeded' });
    expect(await countIn(stoa)).toBe(1);
    // One of them replaces an existing document.
    expect(
      await importDocumentFile(stoa.data, operatorCaller(), await file('fits.ndjson', linesOf(650))),
    ).toMatchObject({ imported: 650 });
    expect(await countIn(stoa)).toBe(650);
    await stoa.close();
  });

  test('quotas of bytes and namespaces also count over the whole file', async () => {
    const stoa = await open({
      dataBytesPerUserMax: 100,
      dataNamespacesPerUserMax: 2,
      importStepRecordsMax: 1,
    });
    await stoa.data.set(ada, 'n', 'a', 'x'.repeat(48));
    for (const lines of [
      [lineOf('b', `"${'x'.repeat(23)}"`), lineOf('c', `"${'x'.repeat(24)}"`)],
      [lineOf('a', '1', 'second'), lineOf('a', '1', 'third')],
    ])
      await expect(
        importDocumentFile(stoa.data, ada, await file('over.ndjson', lines)),
      ).rejects.toMatchObject({ code: 'quota_exceeded' });
    expect(await countIn(stoa)).toBe(1);
    // What it replaces gives its bytes back.
    expect(
      await importDocumentFile(
        stoa.data,
        ada,
        await file('within.ndjson', [lineOf('a', `"${'x'.repeat(70)}"`), lineOf('a', '1', 'second')]),
      ),
    ).toMatchObject({ imported: 2 });
    await stoa.close();
  });

  test('an import that has started writing finishes while others write', async () => {
    const stoa = await open({ dataDocumentsPerUserMax: 500, importStepRecordsMax: 50 });
    const writing: Promise<unknown>[] = [];
    const report = await importDocumentFile(
      stoa.data,
      operatorCaller(),
      await file('begun.ndjson', linesOf(400)),
      {
        onProgress: ({ phase, done }) => {
          if (phase === 'writing')
            writing.push(
              Promise.allSettled(
                Array.from({ length: 50 }, (_, index) => stoa.data.set(ada, 'other', `k${done}-${index}`, 1)),
              ),
            );
        },
      },
    );
    await Promise.all(writing);
    expect([report.imported, await countIn(stoa)]).toEqual([400, 400]);
    await expect(stoa.data.set(ada, 'other', 'one more', 1)).rejects.toMatchObject({
      code: 'quota_exceeded',
    });
    await stoa.close();
  });

  test('an import fails with the error of a write, which ended while the next lines were read', async () => {
    const stoa = await open({ importStepRecordsMax: 1 });
    // Longer than a piece of the file, so that each next line must be waited for.
    const long = `"${'x'.repeat(1_200_000)}"`;
    const path = await file(
      'stopped.ndjson',
      ['a', 'b', 'c', 'd', 'e', 'f'].map((key) => lineOf(key, long)),
    );
    let closing: Promise<void> | undefined;
    const importing = importDocumentFile(stoa.data, operatorCaller(), path, {
      onProgress: ({ phase }) => {
        if (phase === 'writing') closing ??= stoa.close();
      },
    });
    await expect(importing).rejects.toBeInstanceOf(StoaError);
    await closing;
  });
});

test('a signed agent cannot import documents that name other agents', async () => {
  const stoa = await openStoa({ data: 'unused', engine: 'memory' });
  const signed = { ...ada, kind: 'agent' as const, agent: 'scout' };
  const forged = JSON.parse(lineOf('k').replace('{', '{"createdByAgent":"planner",')) as object;
  await expect(stoa.data.transfer.import(signed, [forged])).rejects.toMatchObject({ code: 'forbidden' });
  await expect(
    importDocumentFile(stoa.data, signed, await file('forged', [JSON.stringify(forged)]), {}),
  ).rejects.toMatchObject({ code: 'forbidden' });
  expect(await countIn(stoa)).toBe(0);
  await stoa.close();
});

test('documents of several shards are imported together or not at all', async () => {
  const stoa = await openStoa({
    data: 'unused',
    engine: 'memory',
    shards: 4,
    limits: { dataDocumentsPerUserMax: 1 },
  });
  const documents = Array.from({ length: 12 }, (_, index) => ({
    userId: `user-${index}`,
    namespace: 'n',
    key: 'k',
    value: index,
    createdAt: at,
  }));
  await expect(
    stoa.data.transfer.import(operatorCaller(), [...documents, { ...documents[3], key: 'second' }]),
  ).rejects.toMatchObject({ code: 'quota_exceeded' });
  expect((await stoa.data.transfer.exportPage(operatorCaller())).items).toEqual([]);
  expect(await stoa.data.transfer.import(operatorCaller(), documents)).toMatchObject({ imported: 12 });
  await stoa.close();
});

test('an id of another owner refuses the whole import, including earlier lines', async () => {
  const options = { limits: limitsWith({ importStepRecordsMax: 1 }), nowMs: Date.now };
  const { url } = await sharedServer('dynamodb');
  const table = uniqueName('import');
  onTestFinished(() => dropTable(url, table));
  const data = dataOver({
    ...options,
    port: await openDynamodbDataStore(new URL(dynamodb(url, table)), options),
  });
  await data.set(operatorCaller('a:b'), 'c', 'k', 'theirs');
  const lines = [lineOf('good'), `{"userId":"a","namespace":"b:c","key":"k","createdAt":"${at}","value":1}`];
  await expect(
    importDocumentFile(data, operatorCaller(), await file('collides.ndjson', lines)),
  ).rejects.toMatchObject({ code: 'invalid_request', details: { first: 2 } });
  const twins = [
    `{"userId":"a","namespace":"b:d","key":"k","createdAt":"${at}","value":1}`,
    `{"userId":"a:b","namespace":"d","key":"k","createdAt":"${at}","value":1}`,
  ];
  await expect(
    importDocumentFile(data, operatorCaller(), await file('twins.ndjson', twins)),
  ).rejects.toMatchObject({ code: 'invalid_request', details: { first: 2 } });
  expect(await data.get(ada, 'n', 'good')).toBeUndefined();
  expect(await data.get(operatorCaller('a:b'), 'c', 'k')).toBe('theirs');
  await data.close();
});

const refusal = async (answer: Promise<[number, string]>): Promise<unknown[]> => {
  const [status, body] = await answer;
  const { code, details } = JSON.parse(body) as { code: string; details: object };
  return [status, code, Object.keys(details)];
};

describe('over HTTP', () => {
  let running: Running;
  beforeAll(async () => {
    running = await Running.start();
  });
  afterAll(() => running.stop());

  const send = async (
    lines: readonly string[],
    query = '',
    token = running.operator,
  ): Promise<{ status: number; body: Record<string, unknown> }> => {
    const response = await fetch(`${running.url}/v1/documents/lines${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-ndjson' },
      body: lines.join('\n'),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  test('a file can be longer than a request may otherwise be', async () => {
    const lines = Array.from({ length: 25 }, (_, index) =>
      lineOf(`large-${index}`, `"${'x'.repeat(900_000)}"`),
    );
    expect(await send(lines)).toMatchObject({
      status: 200,
      body: { imported: 25, bad_total: 0, oversized: [] },
    });
    lines.push(lineOf('larger', `"${'x'.repeat(1_100_000)}"`));
    expect(await send(lines, '?dry_run=true')).toMatchObject({
      status: 200,
      body: { imported: 0, lines: 26, oversized: [26] },
    });
  });

  test('a line that is too long, or has too many values, is not parsed', async () => {
    const sizeBytes = 100 * 1024 * 1024;
    for (const piece of [' ', '['])
      expect(await send([piece.repeat(sizeBytes)])).toMatchObject({
        status: 413,
        body: { code: 'too_large', details: { importLineBytesMax: expect.any(Number) } },
      });
    for (const piece of ['[', '{},', '1,']) {
      const { status, body } = await send([`{"value":[${piece.repeat(5 * 1024 * 1024)}`]);
      expect([status, body['detail']]).toEqual([400, expect.stringContaining('1 of 1 lines')]);
      expect(JSON.stringify(body)).toContain('values, twice the bytes of a value');
    }
  });

  test('a line with the largest value that an operator allows fits', async () => {
    const wide = await Running.start({ limits: { valueBytesMax: 20 * 1024 * 1024 } });
    const sent = async (valueBytes: number): Promise<unknown> => {
      const response = await fetch(`${wide.url}/v1/documents/lines`, {
        method: 'POST',
        headers: { authorization: `Bearer ${wide.operator}`, 'content-type': 'application/x-ndjson' },
        body: `${lineOf('wide', `"${'x'.repeat(valueBytes - 2)}"`)}\n`,
      });
      return response.json();
    };
    try {
      expect(await sent(20 * 1024 * 1024)).toMatchObject({ imported: 1, oversized: [] });
      expect(await sent(20 * 1024 * 1024 + 150_000)).toMatchObject({ code: 'too_large' });
    } finally {
      await wide.stop();
    }
  });

  test('a file has a largest number of documents', async () => {
    const small = await Running.start({ limits: { importRecordsMax: 3 } });
    const sent = async (lines: readonly string[]): Promise<unknown> => {
      const response = await fetch(`${small.url}/v1/documents/lines?keep_going=true`, {
        method: 'POST',
        headers: { authorization: `Bearer ${small.operator}`, 'content-type': 'application/x-ndjson' },
        body: lines.join('\n'),
      });
      return response.json();
    };
    try {
      const lines = ['x', lineOf('one'), '', lineOf('two')];
      expect(await sent([...lines, 'y'])).toMatchObject({
        code: 'too_large',
        details: { importRecordsMax: 3 },
      });
      expect(await sent(lines)).toMatchObject({ imported: 2, skipped: 1, bad: [{ line: 1 }] });
    } finally {
      await small.stop();
    }
  });

  test('an import has the same limits on nesting and names as a PUT', async () => {
    const headers = {
      authorization: `Bearer ${running.operator}`,
      'stoa-user': 'ada',
      'content-type': 'application/json',
    };
    const put = async (value: string): Promise<number> =>
      (await fetch(`${running.url}/v1/data/deep/k`, { method: 'PUT', headers, body: `{"value":${value}}` }))
        .status;
    expect([await put(nested(199)), await put(nested(201))]).toEqual([201, 400]);
    // Whichever letters are written as escapes, the name is the same.
    const spelled = [...'__proto__'].map(
      (_, at, letters) =>
        `{"${letters.map((letter, index) => (index === at ? `\\u00${letter.charCodeAt(0).toString(16)}` : letter)).join('')}":1}`,
    );
    for (const name of spelled) expect(await put(name)).toBe(400);
    expect(await put('{"\\u005f_prot_":{"\\u0061":1}}')).toBe(200);
    expect(
      await send([lineOf('a', nested(199), 'deep'), lineOf('b', '{"_proto_":1}', 'deep')]),
    ).toMatchObject({ status: 200, body: { imported: 2 } });
    const bad = [nested(201), nested(1_000_000), '{"__proto__":1}', '[{"a":{"__\\u0070roto__":1}}]'].map(
      (value, index) => lineOf(`bad-${index}`, value, 'deep'),
    );
    const refused = await send([lineOf('good', '1', 'deep'), ...bad]);
    expect(refused).toMatchObject({
      status: 400,
      body: { code: 'invalid_request', details: { bad_total: 4, first: 2 } },
    });
    expect((refused.body['details'] as { bad: { line: number }[] }).bad.map(({ line }) => line)).toEqual([
      2, 3, 4, 5,
    ]);
    expect(await running.stoa.data.get(ada, 'deep', 'good')).toBeUndefined();
    expect(await send([lineOf('good', '1', 'deep'), ...bad], '?keep_going=true')).toMatchObject({
      status: 200,
      body: { imported: 1, bad_total: 4 },
    });
  });

  test('running imports use a bounded part of the disk, per caller and in total', async () => {
    const small = await Running.start({
      limits: { importBytesMax: 3_000, importSpoolBytesPerCallerMax: 4_000, importSpoolBytesMax: 6_000 },
    });
    const begun: { finish: () => void; answer: Promise<[number, string]> }[] = [];
    /** A file whose end does not come before `finish`. */
    const begin = (token: string, bytes: number): Promise<[number, string]> => {
      const request = httpRequest(`${small.url}/v1/documents/lines`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-ndjson' },
      });
      const answer = new Promise<[number, string]>((resolve, reject) => {
        request.on('error', reject);
        request.on('response', (response) => {
          text(response).then((body) => resolve([response.statusCode ?? 0, body]), reject);
        });
      });
      request.write(Buffer.alloc(bytes, '\n'));
      begun.push({ finish: () => request.end(), answer });
      return answer;
    };
    const spooled = (sizeBytes: number): Promise<void> =>
      eventually(() => expect(small.app.stoaServer.spool.sizeBytes).toBe(sizeBytes));
    try {
      expect(await refusal(begin(small.alice, 3_001))).toEqual([413, 'too_large', ['importBytesMax']]);
      void begin(small.alice, 2_500);
      await spooled(2_500);
      expect(await refusal(begin(small.alice, 2_500))).toEqual([
        413,
        'too_large',
        ['importSpoolBytesPerCallerMax'],
      ]);
      void begin(small.bob, 2_500);
      await spooled(5_000);
      expect(await refusal(begin(small.operator, 2_500))).toEqual([
        503,
        'overloaded',
        ['importSpoolBytesMax'],
      ]);
      for (const { finish } of begun) finish();
      const answers = await Promise.all(begun.map(({ answer }) => answer));
      expect(answers.map(([status]) => status)).toEqual([413, 200, 413, 200, 503]);
      await spooled(0);
    } finally {
      await small.stop();
    }
  });

  test('after a refused import the connection serves the next request', async () => {
    const small = await Running.start({ limits: { importBytesMax: 3_000 } });
    // More than the buffers of a connection hold: the rest arrives only if the server continues to read.
    const lines = '\n'.repeat(16 * 1024 * 1024);
    const head = `Host: 127.0.0.1\r\nAuthorization: Bearer ${small.alice}\r\n`;
    try {
      const answers = await small.bytes(
        `POST /v1/documents/lines HTTP/1.1\r\n${head}Content-Type: application/x-ndjson\r\nContent-Length: ${lines.length}\r\n\r\n${lines}` +
          `GET /livez HTTP/1.1\r\n${head}Connection: close\r\n\r\n`,
      );
      expect([...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)).toEqual(['413', '200']);
    } finally {
      await small.stop();
    }
  });

  test('on a full temporary disk a file is refused with disk_full', async () => {
    const disk = mountSmallDisk(1);
    vi.stubEnv('TMPDIR', disk.path);
    try {
      const lines = Array.from({ length: 2_000 }, (_, index) =>
        lineOf(`full-${index}`, `"${'x'.repeat(1_000)}"`),
      );
      expect(await send(lines)).toMatchObject({ status: 503, body: { code: 'disk_full' } });
    } finally {
      vi.unstubAllEnvs();
      disk.unmount();
    }
  });

  test('a duplicate document is refused, and users can import only their own documents', async () => {
    expect(await send([lineOf('twice'), lineOf('other'), lineOf('twice', '2')])).toMatchObject({
      status: 400,
      body: { details: { bad: [{ line: 3, reason: expect.stringContaining('repeated') as string }] } },
    });
    const own = lineOf('own').replace('"ada"', '"alice"');
    expect(await send([own], '', running.alice)).toMatchObject({ status: 200, body: { imported: 1 } });
    expect(await send([own, lineOf('foreign')], '', running.alice)).toMatchObject({
      status: 400,
      body: { details: { first: 2 } },
    });
    expect((await send([own], '', running.reader)).status).toBe(403);
  });

  test('the command sends a file in one request and reports bad lines', async () => {
    const path = await file('command.ndjson', [
      ...Array.from({ length: 20 }, (_, index) =>
        lineOf(`c-${index}`, `"${'x'.repeat(1_000_000)}"`, 'command'),
      ),
      'not json',
    ]);
    const at_ = ['--url', running.url, '--token', running.operator];
    const refused = await program.stoa(['import', path, '--documents', ...at_]);
    expect([refused.status, refused.stderr]).toEqual([
      2,
      expect.stringMatching(
        /Line 21: the line is not JSON[\s\S]*1 of 21 lines cannot be imported \(the first is line 21\); nothing was written/,
      ),
    ]);
    expect(await running.stoa.data.get(ada, 'command', 'c-0')).toBeUndefined();
    const kept = await program.stoa(['import', path, '--documents', '--keep-going', '--json', ...at_]);
    expect([kept.status, kept.json()]).toEqual([
      1,
      { lines: 21, bad: 1, firstBad: 21, skipped: 0, imported: 20 },
    ]);
    expect(await program.stoa(['import', directory, '--documents', ...at_])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('cannot be read') as string,
    });
  });
});
