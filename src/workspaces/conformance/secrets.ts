/** What happens to secrets on every backend: sealed where they are stored, masked where they are answered. */
import { type TestRunner, refusals } from '../../core/test-runner.js';
import type { WorkspacesService } from '../service.js';
import { writeOne } from '../../core/write.js';
import { newId } from '../ids.js';
import { type Bench, type OpenBench, userCaller } from './bench.js';

const mask = '********';

export function secretTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`secrets on ${backend}`, () => {
    const refused = refusals(expect);
    let bench: Bench;
    let service: WorkspacesService;
    const ada = userCaller('ada');

    beforeAll(async () => {
      bench = await open({ workspaceStepRowsMax: 10 });
      service = bench.service;
    });
    afterAll(() => bench.close());

    it('a key is stored encrypted, returned as a mask, and readable through the library', async () => {
      const workspace = await service.createWorkspace(ada, {
        name: 'sealed',
        claude_key: 'sk-ant-very-secret',
      });
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
      await refused(service.createWorkspace(ada, { name: 'masked', claude_key: mask }), 'invalid_request');
    });

    it('secrets anywhere in a config are encrypted', async () => {
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
      await service.updateProject(ada, project.id, {
        config: { ...project.config, environment: { DATABASE_PASSWORD: 'hunter3', NODE_ENV: 'live' } },
      });
      expect(await service.revealProjectConfig(ada, project.id)).toEqual({
        ...config,
        environment: { DATABASE_PASSWORD: 'hunter3', NODE_ENV: 'live' },
      });
      await refused(
        service.updateProject(ada, project.id, { config: { new_token: mask } }),
        'invalid_request',
      );
      for (const forged of [{ $sealed: 'x' }, { new_token: { $sealed: 'x' } }, { list: [{ $sealed: 5 }] }]) {
        await refused(service.updateProject(ada, project.id, { config: forged }), 'invalid_request');
      }
    });

    it('every text below a name of a secret is a secret, and so is a URL with a password', async () => {
      const workspace = await service.createWorkspace(ada, { name: 'below' });
      const config = {
        api_keys: { openai: 'hunter4-below', list: ['hunter4-list', { also: 'hunter4-object' }] },
        Authorization: 'Bearer hunter4-header',
        environment: {
          DATABASE_URL: 'postgres://ada:hunter4-url@db/app',
          HOME_PAGE: 'https://example.org/a@b',
          MAX_TOKENS: 4096,
        },
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
        await refused(service.updateProject(ada, project.id, { config: bare }), 'invalid_request', {
          message: expect.stringContaining('is not a string') as string,
        });
      }
      await service.updateProject(ada, project.id, { config: { secrets: { nothing: null } } });
    });

    it('a repository URL with a password or token is refused, and the error does not repeat it', async () => {
      const workspace = await service.createWorkspace(ada, { name: 'addresses' });
      const project = await service.createProject(ada, workspace.id, { name: 'p' });
      const bad = [
        'https://ada:hunter5@example.org/x.git',
        'https://:hunter5@example.org/x.git',
        'https://ada:hunter5@@example.org/x.git',
        'https://ada@example.org:hunter5@example.org/x.git',
        'https://ada:hunter5/with/slashes@example.org/x.git',
        'https://ada:1234/hunter5@example.org/x.git',
        'https://ada:12345678/hunter5@example',
        'https://example.org:8443/x@1.git,https://ada:hunter5@example.org/x.git',
        'HTTPS://x-access-token:hunter5@example.org/x.git',
        'ssh://git:hunter5@example.org/x.git',
        'https://ghp_hunter5@github.com/x/y.git',
        'https://glpat-hunter5@gitlab.com/x/y@1.git',
        'https://example.org/x.git?private_token=hunter5',
      ];
      for (const url of bad) {
        const given = [
          { git_url: url },
          { git_info: { remote_url: url } },
          { git_info: { remotes: [{ fetch: `origin ${url} (fetch)` }] } },
        ];
        const refused = await Promise.all(
          given.flatMap((fields) =>
            [
              service.createProject(ada, workspace.id, { name: 'bad', ...fields }),
              service.updateProject(ada, project.id, fields),
            ].map((attempt) => attempt.catch((error: unknown) => error)),
          ),
        );
        for (const error of refused)
          expect(error).toMatchObject({
            code: 'invalid_request',
            fix: expect.stringContaining('config under "secrets"') as string,
          });
        expect(JSON.stringify(refused) + refused.map(String).join('')).not.toContain('hunter5');
      }
      const good = [
        '',
        'git@example.org:x/y.git',
        'ssh://git@example.org:22/x/y.git',
        'ssh://git@example.org:22/x/y@1.git',
        'ssh://ada@example.org@example.org/x.git',
        'https://ada@example.org/x.git',
        'https://example.org:8443/x.git',
        'https://example.org/x@1.git',
        'https://host:8443/path@x',
        'https://example.org:8443/x@1.git',
        'https://localhost:8443/x@1.git',
        'http://[::1]:8443/x@1.git',
        '/srv/git/x.git',
      ];
      for (const url of good)
        expect(
          await service.updateProject(ada, project.id, { git_url: url, git_info: { remote_url: url } }),
        ).toMatchObject({ git_url: url, git_info: { remote_url: url } });
      expect(await bench.dump()).not.toContain('hunter5');
    });

    it('a password in a URL that was stored earlier is never shown', async () => {
      const workspace = await service.createWorkspace(ada, { name: 'stored before' });
      const url = 'https://ada:hunter6@example.org/x.git';
      const id = newId('project');
      await writeOne(
        bench.writer,
        { caller: ada },
        bench.port.createProject('ada', workspace.id, id, {
          name: 'old',
          git_url: url,
          git_info: { remote_url: url, remotes: [url], is_clean: true },
        }),
      );
      const answers = [
        await service.getProject(ada, id),
        ...(await service.listProjects(ada, workspace.id)).items,
        await service.updateProject(ada, id, { language: 'c' }),
        await service.deleteProject(ada, id),
        await service.restoreProject(ada, id),
      ];
      expect(answers).toHaveLength(5);
      for (const answer of answers)
        expect(answer).toMatchObject({
          git_url: 'https://…@example.org/x.git',
          git_info: { remote_url: mask, remotes: [mask], is_clean: true },
        });
      const unlike = newId('project');
      await writeOne(
        bench.writer,
        { caller: ada },
        bench.port.createProject('ada', workspace.id, unlike, {
          name: 'no address',
          git_url: `git clone ${url}`,
        }),
      );
      const shown = await service.getProject(ada, unlike);
      expect(shown.git_url).toBe(mask);
      expect(JSON.stringify([answers, shown, await bench.changes()])).not.toContain('hunter6');
    });

    it('texts with a thousand near matches of a password are checked quickly', async () => {
      const { id } = await service.createWorkspace(ada, { name: 'nearly' });
      for (const [index, text] of [
        'a'.repeat(60_000),
        `a://${':'.repeat(60_000)}`,
        'a://a:'.repeat(10_000),
        `a://${'@'.repeat(60_000)}`,
        'a://gla-'.repeat(7_000),
        '?token'.repeat(10_000),
      ].entries()) {
        const project = await service.createProject(ada, id, {
          name: `p${index}`,
          config: { text },
          git_info: { text },
        });
        expect([project.config, project.git_info]).toEqual([{ text }, { text }]);
      }
    });

    it('re-keying encrypts every secret with the new key and changes nothing else', async () => {
      const workspaces = await Promise.all(
        Array.from({ length: 25 }, (_, index) =>
          service.createWorkspace(ada, { name: `rekey ${index}`, claude_key: `sk-rekey-${index}` }),
        ),
      );
      const project = await service.createProject(ada, workspaces[0]!.id, {
        name: 'p',
        config: { token: 'sk-token' },
      });
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
