/** A write that changes no words, over HTTP: its author is found at once and after filing. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DirectoryFind } from '../../src/homes/directory/find/find.js';
import { PostgresFind } from '../../src/homes/postgres/find/find.js';
import { Running } from '../server/running.js';
import { sharedHome } from '../servers/shared.js';
import { findings } from './index-at-work.js';

describe.each(['a data directory', 'PostgreSQL'])('in %s', (home) => {
  let running: Running;
  beforeAll(async () => {
    running = await Running.start(home === 'PostgreSQL' ? (await sharedHome()).options : {});
  });
  afterAll(() => running.stop());

  const ask = async (method: string, path: string, body: object, agent?: string) => {
    const headers: Record<string, string> = agent === undefined ? {} : { 'Stoa-Agent': agent };
    const answer = await running.ask(method, path, { as: running.operator, body, headers });
    expect(answer.status, answer.text).toBeLessThan(300);
    return answer;
  };
  const fileAll = async (): Promise<void> => {
    const { port } = running.stoa.find;
    if (port instanceof DirectoryFind) await port.work.settle();
    else if (port instanceof PostgresFind) await port.fileAll();
    else throw new Error('Unknown index.');
  };
  const foundOf = async (agent: string): Promise<string[]> => {
    const { json } = await ask('POST', '/v1/find', { q: 'harbour', agent });
    return json.items.map(({ kind, version }) => `${kind} ${version}`).toSorted();
  };

  test('a claimed task and a document that is set to its value are found by who did it', async () => {
    const { json: workspace } = await ask('POST', '/v1/workspaces', { name: 'w' });
    const { json: project } = await ask('POST', `/v1/workspaces/${workspace.id}/projects`, { name: 'p' });
    const { json: session } = await ask('POST', `/v1/projects/${project.id}/sessions`, { status: 'active' });
    for (const command of ['paint the harbour', 'sweep the harbour'])
      await ask('POST', `/v1/sessions/${session.id}/tasks`, { command });
    const value = { text: 'the harbour is deep' };
    await ask('PUT', '/v1/data/notes/deep', { value }, 'scribe');
    await fileAll();
    const { segments } = await running.stoa.find.port.size();
    await ask('POST', `/v1/projects/${project.id}/tasks/claim`, {}, 'painter');
    await ask('PUT', '/v1/data/notes/deep', { value }, 'painter');
    for (const _filed of [false, true]) {
      expect(await foundOf('painter')).toEqual(['data 2', 'tasks 2']);
      expect(await foundOf('scribe')).toEqual([]);
      await fileAll();
    }
    // Words that were filed again would be in a segment of their own.
    expect((await running.stoa.find.port.size()).segments).toBe(segments);
    expect(await findings(running.stoa)).toEqual([]);
  });
});
