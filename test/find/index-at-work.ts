/** A Stoa with documents, tasks and a message in its search index, for tests of the doctor and of `stoa reindex`. */
import { expect } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import type { Stoa } from '../../src/index.js';
import type { ExaminedFinding } from '../../src/operations/model.js';

export const ada = operatorCaller('ada', 'scribe');
export const eve = operatorCaller('eve');

/** Writes things that are filed, and things that wait. `settle` files everything. */
export async function fillIndex(stoa: Stoa, settle: () => Promise<void>): Promise<void> {
  const { data, workspaces, messaging } = stoa;
  for (let at = 0; at < 30; at += 1)
    await data.set(ada, at % 2 === 0 ? 'notes' : 'plans', `key-${at}`, {
      text: `walrus number ${at}`,
      title: 'ice',
    });
  await data.set(ada, 'notes', 'quiet', 'walrus unseen', { index: false });
  await data.set(eve, 'notes', 'other', 'walrus of eve');
  const { id: workspaceId } = await workspaces.createWorkspace(ada, { name: 'w' });
  const { id: projectId } = await workspaces.createProject(ada, workspaceId, { name: 'p' });
  const { id: sessionId } = await workspaces.createSession(ada, projectId, { status: 'active' });
  await workspaces.createTask(ada, sessionId, { command: 'feed the walrus' });
  await messaging.rooms.post(ada, { room: 'global' }, () => ({ body: 'the walrus said', pid: '' }), null);
  await settle();
  await data.set(ada, 'notes', 'key-0', { text: 'walrus again' });
  await data.delete(ada, 'notes', 'key-2');
  await settle();
  await data.set(ada, 'notes', 'late', 'walrus waiting');
}

/** Everything that a search for the walrus finds, with scores. */
export async function seen(stoa: Stoa): Promise<unknown[]> {
  const pages = [];
  for (const caller of [ada, eve])
    pages.push((await stoa.find.find(caller, { q: 'walrus', limit: 100 })).items);
  return pages;
}

export async function findings(stoa: Stoa, repair = false): Promise<ExaminedFinding[]> {
  return (await stoa.operations.examine(repair)).findings;
}

/** The fault is found and repaired, and the next search finds what it found before. */
export async function expectMended(stoa: Stoa, problem: RegExp, before: readonly unknown[]): Promise<void> {
  const found = await findings(stoa);
  expect(found.map((finding) => finding.problem).join('\n')).toMatch(problem);
  expect(found.filter(({ repair }) => repair === null)).toEqual([]);
  await findings(stoa, true);
  expect(await findings(stoa)).toEqual([]);
  expect(await seen(stoa)).toEqual(before);
}
