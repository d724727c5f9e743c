/** Things that are written again with the same words: their entries in the index get new facts, and no word is filed again. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import type { DirectoryFind } from '../../../src/homes/directory/find/find.js';
import { findFamilies as families } from '../../../src/homes/directory/find/rows.js';
import { type Stoa, openStoa } from '../../../src/index.js';
import { kernelOf } from '../../kernel-of.js';
import { findings } from '../../find/index-at-work.js';

const scribe = operatorCaller('ada', 'scribe');
const editor = operatorCaller('ada', 'editor');
const documents = 300;

describe('things that are written again with the same words', () => {
  let directory: string;
  let stoa: Stoa;
  let index: DirectoryFind;
  let projectId: string;

  const open = async (): Promise<void> => {
    stoa = await openStoa({ data: directory });
    index = stoa.find.port as DirectoryFind; // The home of this Stoa is a directory.
  };
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'stoa-find-changes-'));
    await open();
    await write(scribe, 0, documents);
    const { id: workspaceId } = await stoa.workspaces.createWorkspace(scribe, { name: 'w' });
    ({ id: projectId } = await stoa.workspaces.createProject(scribe, workspaceId, { name: 'p' }));
    const { id: sessionId } = await stoa.workspaces.createSession(scribe, projectId, { status: 'active' });
    for (let at = 0; at < 20; at += 1)
      await stoa.workspaces.createTask(scribe, sessionId, { command: `paint the harbour wall ${at}` });
    await index.work.settle();
  });
  afterAll(async () => {
    await stoa.close();
    await rm(directory, { recursive: true, force: true });
  });

  const write = async (caller: typeof scribe, from: number, to: number): Promise<void> => {
    for (let at = from; at < to; at += 1)
      await stoa.data.set(caller, 'notes', `note-${at}`, { text: `harbour number ${at}` });
  };
  const rows = (family: string): string[] =>
    Array.from(
      kernelOf(stoa).root.range(family, {}),
      ({ key, value }) => `${key.toString('hex')} ${value.toString('hex')}`,
    );
  const found = async (request: object): Promise<string[]> => {
    const { items } = await stoa.find.find(scribe, { q: 'harbour', limit: 100, ...request });
    return items.map(({ key, id, author, version }) => `${key ?? id} ${author} ${version}`).toSorted();
  };

  it('are found by their last writer at once, and the words are not filed again', async () => {
    const words = rows(families.blocks);
    await write(editor, 100, 150);
    const claimed: string[] = [];
    for (let at = 0; at < 8; at += 1) {
      const claim = await stoa.workspaces.claimTask(editor, projectId, { lease_seconds: 3_600 });
      claimed.push(claim?.task.id ?? '');
    }
    const expected = [
      ...Array.from({ length: 50 }, (_, at) => `note-${100 + at} editor 2`),
      ...claimed.map((id) => `${id} editor 2`),
    ].toSorted();
    expect(await found({ agent: 'editor' })).toEqual(expected);
    await index.work.settle();
    expect(rows(families.marks)).toEqual([]);
    expect(await found({ agent: 'editor' })).toEqual(expected);
    expect(rows(families.blocks)).toEqual(words);
    expect(rows(families.dead)).toEqual([]);
    expect(await findings(stoa)).toEqual([]);
    await stoa.close();
    await open();
    expect(await found({ agent: 'editor' })).toEqual(expected);
  });

  it('are filed again with other words, also when both writes wait', async () => {
    await stoa.data.set(editor, 'notes', 'note-0', { text: 'lighthouse' });
    await stoa.data.set(scribe, 'notes', 'note-0', { text: 'lighthouse' });
    await write(editor, 1, 2);
    await stoa.data.set(scribe, 'notes', 'note-1', { text: 'lighthouse' });
    for (const _filed of [false, true]) {
      expect(await found({ q: 'lighthouse' })).toEqual(['note-0 scribe 3', 'note-1 scribe 3']);
      expect(await found({ q: '"harbour number 1"' })).toEqual([]);
      await index.work.settle();
    }
    expect(await findings(stoa)).toEqual([]);
  });

  it('write no words again where one entry of a large segment changes', async () => {
    const words = rows(families.blocks);
    const names = rows(families.catalogs);
    await stoa.data.set(editor, 'notes', 'note-200', { text: 'harbour number 200' });
    await index.work.settle();
    expect(await found({ q: '"harbour number 200"' })).toEqual(['note-200 editor 2']);
    expect(rows(families.blocks)).toEqual(words);
    expect(rows(families.catalogs)).toEqual(names);
    expect(await findings(stoa)).toEqual([]);
    await stoa.data.delete(editor, 'notes', 'note-200');
    await stoa.data.set(scribe, 'notes', 'note-200', { text: 'harbour number 200' });
    expect(await found({ q: '"harbour number 200"' })).toEqual(['note-200 scribe 1']);
  });
});
