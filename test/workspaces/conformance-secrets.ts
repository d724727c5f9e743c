/** What happens to secrets on every backend: sealed where they are stored, masked where they are answered. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WorkspacesService } from '../../src/workspaces/service.js';
import { type Bench, type OpenBench, userCaller } from './fixture.js';

const mask = '********';

export function describeSecrets(backend: string, open: OpenBench): void {
  describe(`secrets on ${backend}`, () => {
    let bench: Bench;
    let service: WorkspacesService;
    const ada = userCaller('ada');

    beforeAll(async () => {
      bench = await open({ workspaceStepRowsMax: 10 });
      service = bench.service;
    });
    afterAll(() => bench.close());

    it('a key is stored sealed, answered as a mask, and opens for the library', async () => {
      const workspace = await service.createWorkspace(ada, { name: 'sealed', claude_key: 'sk-ant-very-secret' });
      expect(workspace.claude_key).toBe(mask);
      expect((await service.listWorkspaces(ada)).items[0]?.claude_key).toBe(mask);
      expect(await bench.dump()).not.toContain('sk-ant-very-secret');
      expect(await service.revealWorkspaceKey(ada, workspace.id)).toBe('sk-ant-very-secret');
    });

    it('sending the mask back keeps the key; null removes it', async () => {
      const workspace = await service.createWorkspace(ada, { name: 'kept', claude_key: 'sk-1' });
      await service.updateWorkspace(ada, workspace.id, { claude_key: mask, status: 'inactive' });
      expect(await service.revealWorkspaceKey(ada, workspace.id)).toBe('sk-1');
      expect((await service.updateWorkspace(ada, workspace.id, { claude_key: null })).claude_key).toBeNull();
      await expect(service.createWorkspace(ada, { name: 'masked', claude_key: mask })).rejects.toMatchObject({ code: 'invalid_request' });
    });

    it('secrets in a config are sealed, wherever they stand', async () => {
      const workspace = await service.createWorkspace(ada, { name: 'configs' });
      const config = {
        environment: { DATABASE_PASSWORD: 'hunter2-env', NODE_ENV: 'test' },
        secrets: { anything: 'hunter2-any', nested: { deep: ['hunter2-deep'] } },
        model: { name: 'large', api_key: 'hunter2-model' },
      };
      const project = await service.createProject(ada, workspace.id, { name: 'p', config });
      expect(project.config).toEqual({
        environment: { DATABASE_PASSWORD: mask, NODE_ENV: 'test' },
        secrets: { anything: mask, nested: { deep: [mask] } },
        model: { name: 'large', api_key: mask },
      });
      expect(await bench.dump()).not.toContain('hunter2');
      expect(await service.revealProjectConfig(ada, project.id)).toEqual(config);
      await service.updateProject(ada, project.id, { config: { ...project.config, environment: { DATABASE_PASSWORD: 'hunter3', NODE_ENV: 'live' } } });
      expect(await service.revealProjectConfig(ada, project.id)).toEqual({ ...config, environment: { DATABASE_PASSWORD: 'hunter3', NODE_ENV: 'live' } });
      await expect(service.updateProject(ada, project.id, { config: { new_token: mask } })).rejects.toMatchObject({ code: 'invalid_request' });
      for (const forged of [{ $sealed: 'x' }, { new_token: { $sealed: 'x' } }, { list: [{ $sealed: 5 }] }]) {
        await expect(service.updateProject(ada, project.id, { config: forged })).rejects.toMatchObject({ code: 'invalid_request' });
      }
    });

    it('below a name that speaks of secrets every text is one, and so is a URL with a password', async () => {
      const workspace = await service.createWorkspace(ada, { name: 'below' });
      const config = {
        api_keys: { openai: 'hunter4-below', list: ['hunter4-list', { also: 'hunter4-object' }] },
        Authorization: 'Bearer hunter4-header',
        environment: { DATABASE_URL: 'postgres://ada:hunter4-url@db/app', HOME_PAGE: 'https://example.org/a@b', MAX_TOKENS: 4096 },
        mask: mask,
      };
      const project = await service.createProject(ada, workspace.id, { name: 'p', config });
      expect(project.config).toEqual({
        api_keys: { openai: mask, list: [mask, { also: mask }] },
        Authorization: mask,
        environment: { DATABASE_URL: mask, HOME_PAGE: 'https://example.org/a@b', MAX_TOKENS: 4096 },
        mask: mask,
      });
      expect(await bench.dump()).not.toContain('hunter4');
      expect(await service.revealProjectConfig(ada, project.id)).toEqual(config);
      await service.updateProject(ada, project.id, { config: { ...project.config, more: true } });
      expect(await service.revealProjectConfig(ada, project.id)).toEqual({ ...config, more: true });
      for (const bare of [{ secrets: { pin: 1234 } }, { secrets: { deep: [{ on: true }] } }]) {
        await expect(service.updateProject(ada, project.id, { config: bare })).rejects.toMatchObject({ code: 'invalid_request', message: expect.stringContaining('is a text') as string });
      }
      await service.updateProject(ada, project.id, { config: { secrets: { nothing: null } } });
    });

    it('re-keying puts every secret under a new key, and changes nothing else', async () => {
      const workspaces = await Promise.all(Array.from({ length: 25 }, (_, index) => service.createWorkspace(ada, { name: `rekey ${index}`, claude_key: `sk-rekey-${index}` })));
      const project = await service.createProject(ada, workspaces[0]!.id, { name: 'p', config: { token: 'sk-token' } });
      const oldKey = bench.sealer.ring.currentId;
      const report = await bench.rekey();
      expect(report.key_id).not.toBe(oldKey);
      expect(report.resealed.workspaces).toBeGreaterThanOrEqual(26);
      const stored = await bench.dump();
      expect(stored).toContain(`enc:v1:${report.key_id}:`);
      expect(stored).not.toContain(`enc:v1:${oldKey}:`);
      expect(await service.revealWorkspaceKey(ada, workspaces[24]!.id)).toBe('sk-rekey-24');
      expect(await service.revealProjectConfig(ada, project.id)).toEqual({ token: 'sk-token' });
      expect(await service.getWorkspace(ada, workspaces[0]!.id)).toEqual(workspaces[0]);
    });
  });
}
